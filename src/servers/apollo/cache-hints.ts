/** The cache hints of Apollo Server, which reads of the cache lower. */
import { type GraphQLSchema, isObjectType } from "graphql";
import { hintOf } from "../../core/directive/hints/cache-control.js";
import type { CacheHint, HintedInfo } from "../../core/directive/hints/response-hint.js";
import type { ResponseHint } from "../../core/store/entry-layout.js";
import type { ReadReport } from "../../core/tier/request/request.js";

export const hasLifetimes = (schema: GraphQLSchema): boolean =>
  Object.values(schema.getTypeMap()).some(
    (type) => isObjectType(type) && Object.values(type.getFields()).some((field) => (hintOf(field).maxAge ?? 0) > 0),
  );

/** Returns whole seconds. As in the header Age, less than a second does not count as age. */
export const secondsLeft = (freshForMs: number, ageMs: number): number =>
  ageMs < 1_000 ? Math.ceil(freshForMs / 1_000) : Math.floor(freshForMs / 1_000);

/** The narrowest policy of all values: Apollo sees neither loaders nor fields without a hint. */
export class NarrowestPolicy {
  #maxAge = Number.POSITIVE_INFINITY;
  #isPrivate = false;

  add(report: ReadReport): void {
    if (report.isPrivate) this.#isPrivate = true;
    if (report.outcome === "bypassed") return;
    this.addFresh(report.freshForMs, report.ageMs, false);
    this.addHint(report.hint);
  }

  /** That of a loader, which has no `info`, says that its load was narrowed. */
  addHint(hint: ResponseHint | undefined): void {
    if (hint?.scope === "PRIVATE") this.#isPrivate = true;
  }

  /** The field needs no hint: that of the response is the lowest of all. */
  addFresh(freshForMs: number, ageMs: number, isPrivate: boolean): void {
    if (isPrivate) this.#isPrivate = true;
    this.#maxAge = Math.min(this.#maxAge, Math.max(0, secondsLeft(freshForMs, ageMs)));
  }

  /** Only narrows: a response without a maxAge gets none. */
  restrict(policy: CacheHint): void {
    if (this.#isPrivate) policy.restrict?.({ scope: "PRIVATE" });
    if (policy.maxAge !== undefined && Number.isFinite(this.#maxAge)) policy.restrict?.({ maxAge: this.#maxAge });
  }
}

/**
 * Repeats hints of the load, and otherwise narrows those of the schema. A field without a hint gets
 * none: being cached here does not allow proxies to cache it. A stale value has no freshness left.
 */
export function restrictHint({ cacheControl }: HintedInfo, report: ReadReport): void {
  const hint = cacheControl?.cacheHint;
  if (cacheControl === undefined || hint === undefined) return;
  if (report.outcome !== "bypassed" && report.hint !== undefined) cacheControl.setCacheHint(report.hint);
  if (report.isPrivate) hint.restrict?.({ scope: "PRIVATE" });
  if (report.outcome !== "bypassed" && hint.maxAge !== undefined)
    hint.restrict?.({ maxAge: secondsLeft(report.freshForMs, report.ageMs) });
}
