import { CachedError } from "../../base/errors.js";
import { missingPropertyOf } from "../../keys/path.js";
import type { EmptyTagReporter } from "../../schema-rules.js";
import type { TagMistakes } from "../../telemetry/channel.js";

/**
 * Returns a function that reports the templates of one field that yield no tag because a parent or a result lacks the
 * property that they name. Arguments and the context may lack theirs, and a representation the keys that it does not
 * use: the templates that follow from a type are not among those `declared`.
 */
export function emptyTagReporter(
  { source, coordinate }: { readonly source: string; readonly coordinate: string },
  declared: readonly string[],
  mistakes: TagMistakes,
): EmptyTagReporter {
  return ({ text, pieces }, roots) => {
    if (!declared.includes(text)) return;
    for (const piece of pieces) {
      const isOfObjects = typeof piece !== "string" && "root" in piece && ["source", "result"].includes(piece.root);
      const missing = isOfObjects ? missingPropertyOf(piece, roots) : undefined;
      if (missing === undefined) continue;
      const { at, property } = missing;
      const mistake = `${source} on \`${coordinate}\`: \`tags\`: \`${text}\` yields no tag, since the value at \`${at}\` has no property \`${property}\`; correct the path, or return an object with it`;
      mistakes.report(coordinate, new CachedError("CACHED_POLICY_INVALID", mistake, { coordinate }));
      return;
    }
  };
}
