import { defineScript, INVALIDATION_LOG, TAG_VERSION } from "../define-script.js";

/** The maximum number of members of the log. Beyond it, the oldest are dropped. */
const MAX_MEMBERS = 20_000;
/** How long the version lasts that replaces an unrecognised value; its next use extends that. */
const REPLACEMENT_TTL_MS = 60_000;

/**
 * Appends tags to their invalidation log and gives them new versions, in one step. The keys are the
 * log (see INVALIDATION_LOG), and then the tags. A tag without a version needs none, and one with a
 * write in progress keeps its mark. Anything else at the key of a tag is replaced by a version. With
 * `isSoft` 1, a tag keeps the first part of its version, and gets a new second part.
 * Drops invalidations that are older than the longest retention any process has requested from this
 * log, and the oldest of too many. The log then says up to when it has forgotten.
 * Idempotent in effect: a run at any later time gives another new version, never an earlier one, and
 * a later time in the log.
 * Returns `callerId`.
 * Old versions are deleted first: a full server refuses a script that writes, but not one that has
 * deleted something before, and an invalidation must go through if at all possible.
 */
export const invalidateTags = defineScript({
  name: "invalidate-tags",
  args: ["callerId", "logRetentionMs", "isSoft"],
  lua: `${TAG_VERSION}${INVALIDATION_LOG}
local replaced = {}
for i = 2, #KEYS do
  local kind, version = readTag(KEYS[i])
  if kind == 'version' or kind == 'unknown' then
    local renewed = newVersion(callerId, version)
    if isSoft == '1' and version then
      local soft = string.sub(version, 17)
      renewed = string.sub(version, 1, 16) .. newVersion(callerId, #soft == 16 and soft or nil)
    end
    replaced[#replaced + 1] = { KEYS[i], renewed, version and redis.call('PTTL', KEYS[i]) or ${REPLACEMENT_TTL_MS} }
    redis.call('DEL', KEYS[i])
  end
end
local key = KEYS[1]
local _, last, knownMs = readLog(key)
local retentionMs = math.max(knownMs, tonumber(logRetentionMs))
local at = math.max(now, last + 1)
local dropAt = at - retentionMs - 1
local excess = redis.call('ZCARD', key) - ${MAX_MEMBERS}
if excess > 0 then dropAt = math.max(dropAt, tonumber(redis.call('ZRANGEBYSCORE', key, '(0', '+inf', 'WITHSCORES', 'LIMIT', excess, 1)[2])) end
local dropped = redis.call('ZREVRANGEBYSCORE', key, dropAt, '(0', 'WITHSCORES', 'LIMIT', 0, 1)
redis.call('ZREMRANGEBYSCORE', key, '(0', dropAt)
if dropped[2] then redis.call('ZADD', key, dropped[2], FORGOTTEN, dropped[2], dropped[1]) end
redis.call('ZADD', key, at, newRecord(callerId))
for i = 2, #KEYS do redis.call('ZADD', key, at, KEYS[i]) end
keepLog(key, retentionMs, knownMs)
for _, tag in ipairs(replaced) do
  if tag[3] == -1 then redis.call('SET', tag[1], tag[2])
  else redis.call('SET', tag[1], tag[2], 'PX', math.max(1, tag[3])) end
end
return callerId`,
});
