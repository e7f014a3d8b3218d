import type { Subject } from "../../keys/key.js";
import type { Policy } from "../../policy/policy.js";
import type { OwnFreshness, ResponseHint } from "../../store/entry-layout.js";
import type { Channel } from "../../telemetry/channel.js";
import type { ReadOutcome } from "../../telemetry/events.js";
import { ownPolicy } from "../entry/freshness.js";
import type { LoadedValue, Refusal } from "./loaded.js";
import type { AwaitedLoad, ReadRequest } from "./request.js";
import type { RequestTags } from "./tags.js";

/** How a read was served. Properties that are rarely used are computed on access. */
export class ServedReport {
  readonly outcome: Exclude<ReadOutcome, "bypassed">;
  readonly isPrivate: boolean;
  readonly freshForMs: number;
  readonly ageMs: number;
  readonly #policy: Policy;
  readonly #tags: RequestTags;
  readonly #value: ServedValue | undefined;

  constructor(
    policy: Policy,
    tags: RequestTags,
    outcome: Exclude<ReadOutcome, "bypassed">,
    freshForMs: number,
    ageMs: number,
    value: ServedValue | undefined,
  ) {
    this.outcome = outcome;
    this.isPrivate = policy.scope === "PRIVATE";
    this.#policy = policy;
    this.freshForMs = Math.max(0, freshForMs);
    this.ageMs = Math.max(0, ageMs);
    this.#tags = tags;
    this.#value = value;
  }

  get staleForMs(): number {
    const value = this.#value;
    const own = value === undefined || !("freshness" in value) ? undefined : value.freshness;
    return (own === undefined ? this.#policy : ownPolicy(this.#policy, own)).staleWhileRevalidateMs;
  }

  get hint(): ResponseHint | undefined {
    return this.#value?.hint;
  }

  get refusal(): Refusal | undefined {
    return this.#value !== undefined && "refusal" in this.#value ? this.#value.refusal : undefined;
  }

  get subjects(): readonly Subject[] {
    // Its tags could not be derived, or say nothing: it is not stored.
    if (this.refusal === "unkeyable") return [];
    return this.#value === undefined ? [] : subjectsOf(this.#tags, this.#value);
  }
}

/**
 * What a read has ended with: a value that was loaded, decoded from its entry, or kept in memory.
 */
export type ServedValue =
  | LoadedValue
  | {
      readonly hint: ResponseHint | undefined;
      readonly subjects: readonly Subject[];
      readonly freshness?: OwnFreshness | undefined;
    };

/** Returns the tags of a value that a request got. */
const subjectsOf = (tags: RequestTags, served: ServedValue): readonly Subject[] =>
  "subjects" in served ? served.subjects : subjectsOfLoaded(tags, served);

/**
 * Returns all tags of a loaded value, each once: those known before its load, and those derived
 * from it.
 */
export function subjectsOfLoaded(
  tags: RequestTags,
  { value, settings }: Pick<LoadedValue, "value" | "settings">,
): readonly Subject[] {
  const { subjects, subjectsOf: derivedFrom } = tags;
  if (derivedFrom === undefined && settings === undefined) return subjects;
  return [...new Set([...subjects, ...(derivedFrom?.(value) ?? []), ...(settings?.tags ?? [])])];
}

/** Returns whether two lists have the same subjects in the same order. */
export const areSameSubjects = (some: readonly Subject[], others: readonly Subject[]): boolean =>
  some.length === others.length && some.every((subject, nth) => subject === others[nth]);

/** Reports that `request` has waited, unless it was for its own load. */
export function reportWait(
  request: ReadRequest,
  { request: awaited, gen }: AwaitedLoad,
  waitMs: number,
  channel: Channel,
): void {
  if (awaited === request) return;
  const { key } = request;
  const { coordinate } = key;
  channel.waited(coordinate, key, waitMs, awaited !== "elsewhere");
  const load = awaited === "elsewhere" ? undefined : awaited.trace?.load;
  if (request.trace !== undefined)
    channel.tracing?.waited({ coordinate, waitMs, parent: request.trace.parent, load, gen });
}
