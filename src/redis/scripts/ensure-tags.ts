import { defineScript, TAG_VERSION } from "../define-script.js";

/**
 * Returns the versions of tags, created where there is none or an unrecognised value. Each is kept
 * for at least another `ttlMs`, or without limit if that is 'never', so that a tag outlives every
 * entry that depends on it. A version is given twice that time, and gets more only when less than
 * `ttlMs` is left: near caches take every change of the key for an invalidation. For a tag with a
 * write in progress it returns 'write-in-progress', which is no version.
 * Idempotent in effect: a ttl is only ever prolonged. A run after the version was lost creates
 * another one.
 */
export const ensureTags = defineScript({
  name: "ensure-tags",
  args: ["callerId", "ttlMs"],
  lua: `${TAG_VERSION}
local versions = {}
local ttl = tonumber(ttlMs)
for i, tag in ipairs(KEYS) do
  local kind, version = readTag(tag)
  if kind == 'mark' then version = 'write-in-progress'
  elseif kind == 'version' then
    local leftMs = redis.call('PTTL', tag)
    if leftMs >= 0 and not ttl then redis.call('PERSIST', tag)
    elseif leftMs >= 0 and leftMs < ttl then redis.call('PEXPIRE', tag, 2 * ttl) end
  else
    version = newVersion(callerId)
    if ttl then redis.call('SET', tag, version, 'PX', 2 * ttl) else redis.call('SET', tag, version) end
  end
  versions[i] = version
end
return versions`,
});
