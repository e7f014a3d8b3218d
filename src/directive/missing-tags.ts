import { CachedError } from "../errors.js";
import { missingPropertyOf } from "../keys/path.js";
import type { EmptyTagReporter } from "../schema-rules.js";
import type { Channel } from "../telemetry/channel.js";

/**
 * Returns a function that reports each template of one field once if it has yielded no tag because a parent or a result
 * lacks the property that it names. Arguments and the context may lack theirs.
 */
export function emptyTagReporter(source: string, coordinate: string, channel: Channel): EmptyTagReporter {
  const reported = new Set<string>();
  return ({ text, pieces }, roots) => {
    if (reported.has(text)) return;
    for (const piece of pieces) {
      const isObjects = typeof piece !== "string" && "root" in piece && ["source", "result"].includes(piece.root);
      const missing = isObjects ? missingPropertyOf(piece, roots) : undefined;
      if (missing === undefined) continue;
      reported.add(text);
      const error = new CachedError(
        "CACHED_POLICY_INVALID",
        `${source} on \`${coordinate}\`: \`tags\`: \`${text}\` yields no tag, since the value at \`${missing.at}\` has no property \`${missing.property}\`; correct the path, or return an object with it`,
        { coordinate },
      );
      channel.publish({ name: "tag.mistaken", coordinate, digest: "", error });
      return;
    }
  };
}
