import { defineScript, LOG_END } from "../define-script.js";

/**
 * Appends tag invalidations to the log and drops those older than `logRetentionMs`. Without values
 * it only returns the end of the log, and creates the log if there is none. Returns the log id and
 * the time of the last invalidation. The only key is the log: a sorted set of tags, scored by the
 * time of their last invalidation. The log id is the member with score 0, and tells a new log from
 * one that was lost. Times only grow, even if the server's clock goes back.
 * Idempotent in effect: a tag that is appended twice only gets a later time.
 * Old tags are dropped first: a full server refuses a script that writes, but not one that has
 * deleted something before.
 */
export const logTags = defineScript({
  name: "log-tags",
  args: ["proposedLogId", "logRetentionMs"],
  lua: `${LOG_END}
local logId, at = readLogEnd(KEYS[1])
if #ARGV >= first then redis.call('ZREMRANGEBYSCORE', KEYS[1], '(0', math.max(now, (at or 0) + 1) - logRetentionMs) end
if not logId then
  logId, at = proposedLogId, 0
  redis.call('ZADD', KEYS[1], 0, logId)
end
if #ARGV >= first then
  at = math.max(now, at + 1)
  for i = first, #ARGV do redis.call('ZADD', KEYS[1], at, ARGV[i]) end
end
redis.call('PEXPIRE', KEYS[1], 10 * logRetentionMs)
return { logId, tostring(at) }`,
});
