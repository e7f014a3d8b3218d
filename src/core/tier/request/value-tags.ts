import type { Subject } from "../../keys/key.js";
import type { OwnFreshness, ResponseHint } from "../../store/body.js";
import type { LoadedValue } from "./loaded.js";
import type { RequestTags } from "./request.js";

/** What a read has ended with: a value that was loaded, decoded from its entry, or kept by the near cache. */
export type ServedValue =
  | LoadedValue
  | {
      readonly hint: ResponseHint | undefined;
      readonly subjects: readonly Subject[];
      readonly freshness?: OwnFreshness | undefined;
    };

/** Returns the tags of a value that a request got. */
export const subjectsOf = (tags: RequestTags, served: ServedValue): readonly Subject[] =>
  "subjects" in served ? served.subjects : subjectsOfLoaded(tags, served);

/** Returns all tags of a loaded value, each once: those known before its load, and those derived from it. */
export function subjectsOfLoaded(tags: RequestTags, { value, settings }: LoadedValue): readonly Subject[] {
  const { subjects, subjectsOf: derivedFrom } = tags;
  const kept = settings?.unchanged?.subjects;
  if (derivedFrom === undefined && settings === undefined) return subjects;
  return [...new Set([...subjects, ...(derivedFrom?.(value) ?? []), ...(kept ?? []), ...(settings?.tags ?? [])])];
}

/** Returns whether two lists have the same subjects in the same order. */
export const areSameSubjects = (some: readonly Subject[], others: readonly Subject[]): boolean =>
  some.length === others.length && some.every((subject, nth) => subject === others[nth]);
