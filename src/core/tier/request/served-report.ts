import type { Subject } from "../../keys/key.js";
import type { OwnFreshness, ResponseHint } from "../../store/entry-layout.js";
import { ownPolicy } from "../entry/freshness.js";
import type { LoadedValue } from "./loaded.js";
import type { ReadRequest, ServedReport } from "./request.js";

/** `value`: what a read has ended with; undefined if the load has failed. */
export function servedReport(
  { policy, tags }: Pick<ReadRequest, "policy" | "tags">,
  outcome: ServedReport["outcome"],
  freshForMs: number,
  ageMs: number,
  value: ServedValue | undefined,
): ServedReport {
  const loaded = value !== undefined && "refusal" in value ? value : undefined;
  const own = value !== undefined && "freshness" in value ? value.freshness : undefined;
  return {
    outcome,
    hasFailed: value === undefined,
    isPrivate: policy.scope === "PRIVATE",
    // A value that seems to be from later than now is no fresher than one from now.
    freshForMs: Math.max(0, freshForMs + Math.min(0, ageMs)),
    ageMs: Math.max(0, ageMs),
    hint: value?.hint,
    refusal: loaded?.refusal,
    staleForMs: (own === undefined ? policy : ownPolicy(policy, own)).staleWhileRevalidateMs,
    // Few ask for them, and those of a value that is not stored may throw.
    get subjects() {
      // Its tags could not be derived, or say nothing: it is not stored.
      if (value === undefined || loaded?.refusal === "unkeyable") return [];
      return "subjects" in value ? value.subjects : subjectsOfLoaded(tags, value);
    },
  };
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
