import type { Subject } from "../../keys/key.js";
import type { OwnFreshness, ResponseHint } from "../../store/entry-layout.js";
import { ownPolicy } from "../entry/freshness.js";
import type { LoadedValue, Refusal } from "./loaded.js";
import type { ReadRequest, ServedReport } from "./request.js";

/** A class: V8 makes a hidden class for each object literal with an accessor. */
export class Served implements ServedReport {
  readonly hasFailed: boolean;
  readonly isPrivate: boolean;
  readonly freshForMs: number;
  readonly ageMs: number;
  readonly hint: ResponseHint | undefined;
  readonly refusal: Refusal | undefined;
  readonly staleForMs: number;
  readonly #tags: ReadRequest["tags"];
  readonly #value: ServedValue | undefined;

  /** `value`: what a read has ended with; undefined if the load has failed. */
  constructor(
    { policy, tags }: Pick<ReadRequest, "policy" | "tags">,
    readonly outcome: ServedReport["outcome"],
    freshForMs: number,
    ageMs: number,
    value: ServedValue | undefined,
  ) {
    const own = value !== undefined && "freshness" in value ? value.freshness : undefined;
    this.hasFailed = value === undefined;
    this.isPrivate = policy.scope === "PRIVATE";
    // A value that seems to be from later than now is no fresher than one from now.
    this.freshForMs = Math.max(0, freshForMs + Math.min(0, ageMs));
    this.ageMs = Math.max(0, ageMs);
    this.hint = value?.hint;
    this.refusal = value !== undefined && "refusal" in value ? value.refusal : undefined;
    this.staleForMs = (own === undefined ? policy : ownPolicy(policy, own)).staleWhileRevalidateMs;
    this.#tags = tags;
    this.#value = value;
  }

  /** Few ask for them, and those of a value that is not stored may throw. */
  get subjects(): readonly Subject[] {
    const value = this.#value;
    // Its tags could not be derived, or say nothing: it is not stored.
    if (value === undefined || this.refusal === "unkeyable") return [];
    return "subjects" in value ? value.subjects : subjectsOfLoaded(this.#tags, value);
  }
}

/** A value that was loaded, decoded from its entry, or kept in memory. */
export type ServedValue =
  | LoadedValue
  | {
      readonly hint: ResponseHint | undefined;
      readonly subjects: readonly Subject[];
      readonly freshness?: OwnFreshness | undefined;
    };

/** Returns all tags of a loaded value, each once: those known before, and those derived from it. */
export function subjectsOfLoaded(
  { subjects, subjectsOf: derivedFrom }: ReadRequest["tags"],
  { value, settings }: Pick<LoadedValue, "value" | "settings">,
): readonly Subject[] {
  if (derivedFrom === undefined && settings === undefined) return subjects;
  return [...new Set([...subjects, ...(derivedFrom?.(value) ?? []), ...(settings?.tags ?? [])])];
}
