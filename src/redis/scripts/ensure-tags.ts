import { defineScript } from "../define-script.js";

/**
 * The tagVersions of tags: made of `versionBase` where there is none, and kept for `ttlMs` more, so that a tag in use outlives every entry under it.
 * A tag under a write bracket answers with its writeMark, which is longer than a version. Idempotent but for the time it counts from.
 */
export const ensureTags = defineScript({
  name: "ensure-tags",
  args: ["versionBase", "ttlMs"],
  lua: `
local out = {}
for i, tag in ipairs(KEYS) do
  local version = redis.call('GET', tag)
  if not version then
    version = versionBase .. struct.pack('<I4', i)
    redis.call('SET', tag, version, 'PX', ttlMs)
  elseif #version == 16 and redis.call('PTTL', tag) < tonumber(ttlMs) then redis.call('PEXPIRE', tag, ttlMs) end
  out[i] = version
end
return out`,
});
