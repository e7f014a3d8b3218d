import { defineScript, TAG_VERSION } from "../define-script.js";

/** How long the version lasts that replaces an unrecognised value; its next use extends that. */
const REPLACEMENT_TTL_MS = 60_000;

/**
 * Gives tags new versions. A tag without a version needs none, and one with a write in progress
 * keeps its mark. Anything else at the key of a tag is replaced by a version.
 * Idempotent in effect: a run at any later time gives another new version, never an earlier one.
 * The old version is deleted first: a full server refuses a script that writes, but not one that
 * has deleted something before, and an invalidation must go through if at all possible.
 */
export const changeTags = defineScript({
  name: "change-tags",
  args: ["callerId"],
  lua: `${TAG_VERSION}
for _, tag in ipairs(KEYS) do
  local kind, version = readTag(tag)
  if kind == 'version' or kind == 'unknown' then
    local remainingMs = kind == 'version' and redis.call('PTTL', tag) or ${REPLACEMENT_TTL_MS}
    redis.call('DEL', tag)
    redis.call('SET', tag, newVersion(callerId, version), 'PX', math.max(1, remainingMs))
  end
end
return 1`,
});
