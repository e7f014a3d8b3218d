import { defineScript, LOG } from "../define-script.js";

/**
 * Notes tag invalidations in the record, a sorted set of tags by the time of their last invalidation, and drops what is older than `logRetentionMs`.
 * Called without values it only says where the record ends, and begins one where there is none. The logId, a member with the score 0, tells
 * one record from the next. `at` never goes back, whatever the server's clock does. There is one key, the record. Idempotent in
 * effect: a tag noted twice is a tag noted later. Dropping comes first: a full server refuses to note, but not once something was deleted.
 */
export const logTags = defineScript({
  name: "log-tags",
  args: ["proposedLogId", "logRetentionMs"],
  lua: `${LOG}
local logId, at = record(KEYS[1])
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
