import type { Clock } from "../../core/base/clock.js";
import type { ReadReport } from "../../core/tier/request/request.js";

/**
 * Summarizes what the reads of one response did, for its headers `Cache-Status` (RFC 9211) and `Server-Timing`. They
 * contain the names of fields and loaders, outcomes and times, never arguments or keys.
 */
export class ResponseSummary {
  readonly #clock: Clock;
  readonly #isForced: boolean;
  /** How many reads had which outcome. A bypass includes its reason. */
  readonly #counts = new Map<string, number>();
  /** The same for each field or loader, with the longest load in milliseconds. */
  readonly #fields = new Map<string, FieldSummary>();
  /** When the first of the values stops being fresh. */
  #freshUntil = Number.POSITIVE_INFINITY;
  /** Whether all values that were loaded for this response are offered to the store. */
  #areStorable = true;

  /** `isForced`: the request asked for everything to be loaded anew. */
  constructor(clock: Clock, isForced = false) {
    this.#clock = clock;
    this.#isForced = isForced;
  }

  /** `name`: the coordinate. `outcome`: with the reason of a bypass, as in the trace. */
  add(name: string, outcome: string, report: ReadReport): void {
    const field = this.#fields.get(name) ?? { counts: new Map(), loadMs: undefined };
    this.#fields.set(name, field);
    for (const counts of [this.#counts, field.counts]) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    if (report.outcome === "bypassed") return;
    const { freshForMs, ageMs, refusal } = report;
    this.#freshUntil = Math.min(this.#freshUntil, this.#clock.now() + freshForMs);
    if (FROM_CACHE.includes(outcome)) return;
    field.loadMs = Math.max(field.loadMs ?? 0, ageMs);
    if (outcome === "loaded" && (refusal !== undefined || freshForMs === 0)) this.#areStorable = false;
  }

  /** Returns the headers by name; none if the response has read nothing. */
  headers(): Readonly<Record<string, string>> {
    if (this.#counts.size === 0) return {};
    return { "Cache-Status": this.#cacheStatus(), "Server-Timing": this.#serverTiming() };
  }

  /** One member for the whole response: the members of the list stand for the caches on its way. */
  #cacheStatus(): string {
    const outcomes = [...this.#counts.keys()];
    const reason = this.#forwardReason(outcomes);
    const parameters = [reason === undefined ? "hit" : `fwd=${reason}`];
    if (!outcomes.some(isBypass)) parameters.push(`ttl=${Math.floor((this.#freshUntil - this.#clock.now()) / 1000)}`);
    if (outcomes.includes("loaded") && this.#areStorable) parameters.push("stored");
    const isCollapsed =
      outcomes.includes("coalesced") && outcomes.every((one) => isFromCache(one) || one === "coalesced");
    if (isCollapsed) parameters.push("collapsed");
    parameters.push(`detail="${describe(this.#counts)}"`);
    return ["graphql-cached", ...parameters].join("; ");
  }

  /** Returns why sources were asked, as a token of RFC 9211. Undefined if none was. */
  #forwardReason(outcomes: readonly string[]): string | undefined {
    if (outcomes.every(isFromCache)) return undefined;
    if (this.#isForced || outcomes.every((one) => one === "bypassed(REQUESTED)")) return "request";
    if (outcomes.some(isFromCache)) return "partial";
    if (outcomes.every(isBypass)) return "bypass";
    return outcomes.every((one) => one === "staleIfError") ? "stale" : "miss";
  }

  #serverTiming(): string {
    return [...this.#fields]
      .sort(([, one], [, other]) => (other.loadMs ?? 0) - (one.loadMs ?? 0))
      .slice(0, MAX_TIMINGS)
      .map(([coordinate, { counts, loadMs }]) => {
        const duration = loadMs === undefined ? "" : `;dur=${loadMs.toFixed(1)}`;
        return `${coordinate}${duration};desc="${describe(counts)}"`;
      })
      .join(", ");
  }
}

/** The most fields and loaders that `Server-Timing` names, those with the longest loads first. */
const MAX_TIMINGS = 20;

const FROM_CACHE: readonly string[] = ["hit", "stale"];

interface FieldSummary {
  readonly counts: Map<string, number>;
  loadMs: number | undefined;
}

const isFromCache = (outcome: string): boolean => FROM_CACHE.includes(outcome);
const isBypass = (outcome: string): boolean => outcome.startsWith("bypassed");
const describe = (counts: ReadonlyMap<string, number>): string =>
  Array.from(counts, ([outcome, count]) => `${outcome} ${count}`).join(", ");

/** Returns the value of a header that is a list, with another member: caches on the way add theirs at the end. */
export const appended = (existing: unknown, member: string): string =>
  existing === undefined || existing === null || existing === "" ? member : `${String(existing)}, ${member}`;
