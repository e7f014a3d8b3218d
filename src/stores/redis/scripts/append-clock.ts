import { MAX_AHEAD_MICROS, MAX_POSITION, MAX_RECORD_BYTES } from "../../../core/store/clock-log.js";
import { defineScript, MAX_LOG_BYTES } from "../define-script.js";

/**
 * Appends records to the invalidation clock, whose keys are its head and its log: see
 * store/clock-log.ts. Each value is a record without its position. Without values it returns the
 * head that is there. A head without its log, or the other way round, is the loss of both, and so
 * is one that is too far ahead of the server's clock, or a log that is too long: a new epoch
 * begins, under which nothing counts that was stored before. So it does if the epoch is
 * `lostEpoch`, whose log somebody could not read. `after`: what the new positions have to be later
 * than. Returns the head. A new one is published on `channel`, which nothing depends on: a user
 * without the right to do so invalidates all the same. Idempotent in effect: a second run
 * invalidates the same at a later position. PERSIST comes first: a full server refuses a script
 * that writes, but not after a write that needs no memory. DEL would do as well, but while a slot
 * of a Cluster moves, its old node refuses a key to a script that has deleted it, and the head
 * would be lost.
 */
export const appendClock = defineScript({
  name: "append-clock",
  args: ["callerId", "after", "channel", "lostEpoch"],
  lua: `
local MAGIC, ZEROS = 'gc clk\\0\\1', string.rep('\\0', 16)
local headKey, logKey = KEYS[1], KEYS[2]
micros = math.max(micros, tonumber(after) + 1)
local function num(bytes, at) return (struct.unpack('<d', bytes, at)) end
local head, start = redis.pcall('GET', headKey), redis.pcall('GETRANGE', logKey, '0', '47')
local last, isWhole = micros, false
if type(head) == 'string' and #head == 56 and string.sub(head, 1, 8) == MAGIC and num(head, 17) >= num(head, 49)
  and num(head, 17) < ${MAX_POSITION} and num(head, 17) <= micros + ${MAX_AHEAD_MICROS} and num(head, 41) > num(head, 33) and num(head, 33) >= 0 then
  last = math.max(last, num(head, 17))
  local cut = type(start) == 'string' and #start == 48 and num(start, 33) or 0
  isWhole = type(start) == 'string' and #start == 48 and string.sub(start, 1, 8) == MAGIC and string.sub(start, 9, 16) == string.sub(head, 9, 16)
    and redis.call('STRLEN', logKey) - 48 == num(head, 41) - num(head, 33)
    and num(head, 41) - num(head, 33) < ${MAX_LOG_BYTES + MAX_RECORD_BYTES}
    and (cut == 0 or (cut > num(head, 33) and cut < num(head, 41))) and string.sub(head, 9, 16) ~= lostEpoch
end
if isWhole and first > #ARGV then return head end
redis.call('PERSIST', headKey)
local epoch, position, nonce, beginsAt, endsAt, floor
if isWhole then
  epoch, position, beginsAt, endsAt, floor = string.sub(head, 9, 16), num(head, 17), num(head, 33), num(head, 41), num(head, 49)
else
  epoch, nonce, position, floor, beginsAt, endsAt = struct.pack('>I8', micros), callerId, last, last, 0, 24
  epoch = string.sub(epoch, 5, 8) .. string.sub(callerId, 1, 4)
  start = MAGIC .. epoch .. struct.pack('<dd', floor, 0) .. ZEROS
  redis.call('SET', logKey, start .. struct.pack('<d', position) .. nonce .. string.sub(ZEROS, 1, 8))
end
for i = first, #ARGV do
  local record, before = ARGV[i], position
  position, nonce = math.max(position + 1, micros), string.sub(record, 1, 8)
  local length = 48 + endsAt - beginsAt + 8 + #record
  if length > ${MAX_LOG_BYTES / 2} and string.sub(start, 33, 48) == ZEROS then
    local cut = struct.pack('<dd', endsAt, before)
    start = string.sub(start, 1, 32) .. cut
    redis.call('SETRANGE', logKey, '32', cut)
  end
  redis.call('APPEND', logKey, struct.pack('<d', position) .. record)
  endsAt = endsAt + 8 + #record
  if length > ${MAX_LOG_BYTES} then
    local cutAt = num(start, 33)
    floor = num(start, 41)
    start = MAGIC .. epoch .. struct.pack('<dd', floor, cutAt) .. ZEROS
    redis.call('SET', logKey, start .. redis.call('GETRANGE', logKey, 48 + cutAt - beginsAt, '-1'))
    beginsAt = cutAt
  end
end
head = MAGIC .. epoch .. struct.pack('<d', position) .. nonce .. struct.pack('<ddd', beginsAt, endsAt, floor)
redis.call('SET', headKey, head)
redis.pcall('PUBLISH', channel, head)
return head`,
});
