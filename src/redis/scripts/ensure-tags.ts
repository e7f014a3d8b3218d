import { defineScript, TAG_VERSION } from "../define-script.js";

/**
 * Returns the versions of tags, created where there is none or an unrecognised value. Each is kept
 * for at least another `ttlMs`, so that a tag in use outlives every entry that depends on it. For a
 * tag with a write in progress it returns 'write-in-progress', which is no version.
 * Idempotent, except that the ttl counts from the latest run. A run after the version was lost
 * creates another one.
 */
export const ensureTags = defineScript({
  name: "ensure-tags",
  args: ["callerId", "ttlMs"],
  lua: `${TAG_VERSION}
local versions = {}
for i, tag in ipairs(KEYS) do
  local kind, version = readTag(tag)
  if kind == 'mark' then version = 'write-in-progress'
  elseif kind == 'version' then
    if redis.call('PTTL', tag) < tonumber(ttlMs) then redis.call('PEXPIRE', tag, ttlMs) end
  else
    version = newVersion(callerId)
    redis.call('SET', tag, version, 'PX', ttlMs)
  end
  versions[i] = version
end
return versions`,
});
