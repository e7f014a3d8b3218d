import { defineScript } from "../define-script.js";

/**
 * Gives tags new tagVersions, made of `versionBase`; a tag without one needs none, and one under a write bracket keeps its writeMark. Idempotent in
 * effect: what a version is does not matter, only that it is new. The old one is deleted first, since a full server refuses to write, but not to
 * a script that has deleted: an invalidation is the last thing to be refused.
 */
export const changeTags = defineScript({
  name: "change-tags",
  args: ["versionBase"],
  lua: `
for i, tag in ipairs(KEYS) do
  if redis.call('STRLEN', tag) == 16 then
    local left = redis.call('PTTL', tag)
    redis.call('DEL', tag)
    redis.call('SET', tag, versionBase .. struct.pack('<I4', i), 'PX', math.max(1, left))
  end
end
return 1`,
});
