import { defineScript } from "../define-script.js";

/**
 * Gives tags new versions, derived from `versionBase`. A tag without a version needs none, and one
 * with a write in progress keeps its mark: anything that is not 16 bytes long is left alone.
 * Idempotent in effect: what matters about a version is only that it is new.
 * The old version is deleted first: a full server refuses a script that writes, but not one that
 * has deleted something before, and an invalidation must go through if at all possible.
 */
export const changeTags = defineScript({
  name: "change-tags",
  args: ["versionBase"],
  lua: `
for i, tag in ipairs(KEYS) do
  if redis.call('STRLEN', tag) == 16 then
    local remainingMs = redis.call('PTTL', tag)
    redis.call('DEL', tag)
    redis.call('SET', tag, versionBase .. struct.pack('<I4', i), 'PX', math.max(1, remainingMs))
  end
end
return 1`,
});
