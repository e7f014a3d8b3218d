import { defineScript } from "../define-script.js";

/**
 * Returns the versions of tags, created from `versionBase` where there is none. Each is kept for at
 * least another `ttlMs`, so that a tag in use outlives every entry that depends on it. For a tag
 * with a write in progress it returns the mark, which is longer than a version.
 * Idempotent, except that the ttl counts from the latest run.
 */
export const ensureTags = defineScript({
  name: "ensure-tags",
  args: ["versionBase", "ttlMs"],
  lua: `
local versions = {}
for i, tag in ipairs(KEYS) do
  local version = redis.call('GET', tag)
  if not version then
    version = versionBase .. struct.pack('<I4', i)
    redis.call('SET', tag, version, 'PX', ttlMs)
  elseif #version == 16 and redis.call('PTTL', tag) < tonumber(ttlMs) then redis.call('PEXPIRE', tag, ttlMs) end
  versions[i] = version
end
return versions`,
});
