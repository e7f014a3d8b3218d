import { defineScript, INVALIDATION_LOG } from "../define-script.js";

/**
 * Returns the last record of an invalidation log and its time. Creates the log if there is none, and
 * makes it remember invalidations for at least `logRetentionMs`. The only key is the log.
 * Idempotent in effect: a log that was lost gets another record if the command runs again.
 */
export const openLog = defineScript({
  name: "open-log",
  args: ["callerId", "logRetentionMs"],
  lua: `${INVALIDATION_LOG}
local key = KEYS[1]
local record, at, knownMs = readLog(key)
if not record then
  record, at = newRecord(callerId), now
  redis.call('DEL', key)
  redis.call('ZADD', key, at, record)
end
keepLog(key, math.max(knownMs, tonumber(logRetentionMs)), knownMs)
return { record, tostring(at) }`,
});
