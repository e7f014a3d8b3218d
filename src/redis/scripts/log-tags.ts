import { defineScript, INVALIDATION_LOG } from "../define-script.js";

/** The maximum number of members of the log. Beyond it, the oldest are dropped. */
const MAX_MEMBERS = 20_000;

/**
 * Appends tag invalidations to the log. Without values it only returns the end of the log, and
 * creates the log if there is none. Returns the log id and the time of the last invalidation. The
 * only key is the log, see INVALIDATION_LOG.
 * Drops invalidations that are older than the longest retention any process has requested from this
 * log, and the oldest of too many. The log then says up to when it has forgotten.
 * Idempotent in effect: a tag that is appended twice only gets a later time.
 * Old tags are dropped first: a full server refuses a script that writes, but not one that has
 * deleted something before.
 */
export const logTags = defineScript({
  name: "log-tags",
  args: ["proposedLogId", "logRetentionMs"],
  lua: `${INVALIDATION_LOG}
local key = KEYS[1]
local logId, at, knownMs = readLog(key)
local retentionMs = math.max(knownMs or 0, tonumber(logRetentionMs))
local isAppending = #ARGV >= first
if isAppending then
  at = math.max(now, (at or 0) + 1)
  local dropAt = at - retentionMs - 1
  local excess = redis.call('ZCARD', key) - ${MAX_MEMBERS}
  if excess > 0 then dropAt = math.max(dropAt, tonumber(redis.call('ZRANGEBYSCORE', key, '(0', '+inf', 'WITHSCORES', 'LIMIT', excess, 1)[2])) end
  local dropped = redis.call('ZREVRANGEBYSCORE', key, dropAt, '(0', 'WITHSCORES', 'LIMIT', 0, 1)
  redis.call('ZREMRANGEBYSCORE', key, '(0', dropAt)
  if dropped[2] then redis.call('ZADD', key, dropped[2], FORGOTTEN) end
end
if not logId then
  logId, at = proposedLogId, at or 0
  redis.call('ZADD', key, 0, logId)
end
if not knownMs or retentionMs > knownMs then redis.call('ZADD', key, -retentionMs, RETENTION) end
for i = first, #ARGV do redis.call('ZADD', key, at, ARGV[i]) end
redis.call('PEXPIRE', key, 10 * retentionMs)
return { logId, tostring(at) }`,
});
