import { type OwnFreshness, type ResponseHint, type ResultTags, readTagNames } from "../store/body.js";
import type { LoadedValue } from "./loaded.js";
import type { RequestTags } from "./request.js";

/** What a read has ended with: a value that was loaded, decoded from its entry, or kept by the near cache. */
export type ServedValue =
  | LoadedValue
  | {
      readonly hint: ResponseHint | undefined;
      readonly resultTags: ResultTags | undefined;
      readonly freshness?: OwnFreshness | undefined;
    }
  | { readonly hint: ResponseHint | undefined; readonly tagNames: readonly string[] };

/** Returns the tags of a value that a request got, by their names in the store, each once. */
export function tagNamesOf(tags: RequestTags, served: ServedValue): readonly string[] {
  if ("tagNames" in served) return served.tagNames;
  return [...tags.names, ...("resultTags" in served ? namesIn(served.resultTags) : derivedTagNames(tags, served))];
}

/** Returns the tags derived from a loaded value, by their names in the store, each once. */
export function derivedTagNames({ names, namesOf }: RequestTags, { value, settings }: LoadedValue): readonly string[] {
  const kept = namesIn(settings?.unchanged?.resultTags);
  const derived = [...(namesOf?.(value) ?? []), ...kept, ...(settings?.tagNames ?? [])];
  // The versions of the others are in the signature.
  return [...new Set(derived)].filter((name) => !names.includes(name));
}

const namesIn = (resultTags: ResultTags | undefined): readonly string[] =>
  resultTags === undefined ? [] : readTagNames(resultTags.list);
