import { optionInvalid } from "../../base/errors.js";
import { listsByType, type Subject } from "../../keys/key.js";
import { checkedTags, mistakeInTag } from "../../keys/tag-template.js";
import type { CacheParts } from "../../parts.js";

/**
 * Returns what an invalidation of the tags that `caller` got changes. Reports, once each, tags that
 * no value can have, among the first hundred.
 *
 * Beyond 20,000 tags in a minute, all that begins like those of a list is invalidated
 * (`ListedTags`).
 *
 * Throws `CACHED_OPTION_INVALID` unless `tags` are non-empty strings that can be meant as tags. The
 * tags of an outbox are made of rows, and were committed: those that cannot be meant are reported,
 * so that they do not stop the others.
 */
export function invalidatedSubjects(parts: CacheParts, given: unknown, caller: string): Subject[] {
  const tags = checkedTags(given, caller);
  for (const [nth, tag] of tags.entries()) {
    const mistake = mistakeInTag(tag, false);
    if (mistake !== undefined && caller !== "outbox") throw optionInvalid(`${caller}: ${mistake}`);
    const problem = mistake ?? (nth < MAX_COMPARED ? problemOf(parts, tag) : undefined);
    if (problem !== undefined) parts.channel.mistaken(null, optionInvalid(`${caller}: ${problem}`));
  }
  const { keys, listedTags } = parts;
  const changed = listsByType(tags).flatMap(
    (list) => (listedTags.allowCall(list.length) ? undefined : keys.beginningsOf(list)) ?? keys.invalidatedTags(list),
  );
  return [...new Set(changed)];
}

/**
 * How many tags of a call are compared with those that values can have: that takes far longer than
 * their text alone.
 */
const MAX_COMPARED = 100;

function problemOf({ knownTags }: CacheParts, tag: string): string | undefined {
  const unknown = knownTags.unknown(tag);
  if (unknown === undefined) return undefined;
  const { name, meant, mayBeOfFunction } = unknown;
  const given = name === undefined ? "another one" : `one like \`${name}…\``;
  const remedy =
    meant === undefined
      ? `known tags: ${knownTags.texts.map((text) => `\`${text}\``).join(", ") || "none"}; correct it`
      : `did you mean \`${meant}\`?`;
  const others = mayBeOfFunction
    ? "a function that returns tags, or another service that shares the store, has it"
    : "another service that shares the store has it";
  return `\`tags\`: expected a tag that a cached field or loader can have, got ${given}; ${remedy}; it is right if ${others}`;
}
