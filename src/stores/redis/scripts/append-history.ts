import { HISTORY_OVERHEAD_BYTES } from "../../../core/store/report-store.js";
import { defineScript } from "../define-script.js";

/** How many parts a call drops at most because of their age. */
const MAX_AGED = 10;

/**
 * Appends the value that follows to the history, the only key: a sorted set of parts. A part is the time in
 * microseconds, a space and the content, scored by the bytes of all parts up to its end. So the parts of the last
 * `maxBytes` are a range of scores; those that begin before it, and those older than `keepMs`, are dropped. A member
 * with score 0, a time alone, says since when nothing is missing.
 *
 * Idempotent in effect: a run at any later time appends the same content again, with a later time.
 */
export const appendHistory = defineScript({
  name: "append-history",
  args: ["maxBytes", "keepMs"],
  perKey: 1,
  lua: `
local key, content = KEYS[1], ARGV[first]
local function microsOf(part) return tonumber(string.match(part, '^%d+')) end
local function beginOf(part, partEndsAt) return partEndsAt - (#part - string.find(part, ' ')) - ${HISTORY_OVERHEAD_BYTES} end
local last = redis.call('ZRANGE', key, '-1', '-1', 'WITHSCORES')
local endsAt = (tonumber(last[2]) or 0) + #content + ${HISTORY_OVERHEAD_BYTES}
local keptFrom = endsAt - maxBytes
local oldest = redis.call('ZRANGEBYSCORE', key, '(0', '+inf', 'WITHSCORES', 'LIMIT', '0', '${MAX_AGED}')
for i = 1, #oldest, 2 do
  if microsOf(oldest[i]) < micros - keepMs * 1000 then keptFrom = math.max(keptFrom, tonumber(oldest[i + 1])) end
end
local atEdge = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', math.max(0, keptFrom)), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
if atEdge[1] and beginOf(atEdge[1], tonumber(atEdge[2])) < keptFrom then keptFrom = tonumber(atEdge[2]) end
local dropped = keptFrom > 0 and redis.call('ZREVRANGEBYSCORE', key, keptFrom, '(0', 'LIMIT', '0', '1') or {}
local since = dropped[1] and microsOf(dropped[1]) or (not last[1] and micros)
if since then
  redis.call('ZREMRANGEBYSCORE', key, '0', math.max(0, keptFrom))
  redis.call('ZADD', key, '0', string.format('%.0f', since))
end
redis.call('ZADD', key, endsAt, string.format('%.0f ', micros) .. content)
redis.call('PEXPIRE', key, keepMs)
return 1`,
});
