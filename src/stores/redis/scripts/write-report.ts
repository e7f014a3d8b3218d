import { defineScript } from "../define-script.js";

/**
 * Writes parts of the report of a process, and notes the time in the index, a sorted set of processes by the
 * time of their last report. The keys are the index and the parts, of one hash slot; for each part
 * follow its ttl and its bytes. A part begins with the sequence (u64, big endian) of the report that it is of: one with a larger
 * sequence stays, so an earlier report that is sent again changes nothing but the time.
 * The member `?` of the index is no process: its score is until when processes are asked to count more.
 * Returns the time, until when they are asked, and whether the process is new in the index (1 or 0).
 */
export const writeReport = defineScript({
  name: "write-report",
  args: ["process", "sequence", "keptMs"],
  lua: `
local index = KEYS[1]
for i = 2, #KEYS do
  local at = first + 2 * (i - 2)
  local head = redis.pcall('GETRANGE', KEYS[i], '0', '7')
  if type(head) ~= 'string' or #head < 8 or struct.unpack('>I8', head) <= tonumber(sequence) then
    redis.call('SET', KEYS[i], struct.pack('>I8', sequence) .. ARGV[at + 1], 'PX', ARGV[at])
  end
end
redis.call('ZREMRANGEBYSCORE', index, '-inf', now - keptMs)
local added = redis.call('ZADD', index, now, process)
redis.call('PEXPIRE', index, keptMs)
return { now, tonumber(redis.call('ZSCORE', index, '?') or 0), added }`,
});
