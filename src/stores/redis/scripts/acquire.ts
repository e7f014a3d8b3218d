import { defineScript, ENTRY } from "../define-script.js";

/**
 * Grants leases: rows 1 to 9 of PROTOCOL.md. Values of a key: the oldest position that counts, the
 * token of the request, and supersededAt: 0 if the caller has seen no value, negated if the grant
 * ends the freshness of that value. `known`: the epoch and position that the caller knows. A last
 * key without values is the head of the invalidation clock, if it is on this server: then no
 * position is granted that the server does not have.
 *
 * Idempotent per token: a client that reconnects before the reply arrives sends the same lease
 * request again and is granted the lease it already holds. Any other call has tokens of its own.
 * `notAfter` (0: none) refuses all requests of a caller that has stopped waiting by then. A new
 * lease chain is named by the time in microseconds and the first half of the token: a request that
 * runs again after its chain has ended starts another chain, so the late store of the first one is
 * still refused. A grant is at least 1/1024 ms later than the value at the key: those who have
 * ruled that value out know the next one by its later time, and the clock may have been set back.
 *
 * Replies per key: that time (8 bytes) and the position of the lease (8 bytes) if a chain has
 * begun; the gen and the remaining time (f64) if another caller holds the lease; otherwise a list.
 * These two are most replies, and cost the least. An absent key, the most frequent case, is one
 * command. A full server refuses that command for any key, so its failure says nothing about the
 * key.
 */
export const acquire = defineScript({
  name: "acquire",
  args: ["leaseMs", "graceMs", "notAfter", "known"],
  lua: `${ENTRY}
if tonumber(notAfter) > 0 and now > tonumber(notAfter) then return 'expired' end
local requests, epoch, position = ARGV[first], struct.unpack('<c8c8', known)
local count = #requests / 32
if #KEYS > count then
  local head = redis.pcall('GETRANGE', KEYS[#KEYS], '8', '23')
  if type(head) == 'table' or #head ~= 16 or string.sub(head, 1, 8) ~= epoch then return 'expired' end
  if struct.unpack('<d', head, 9) < struct.unpack('<d', position) then position = string.sub(head, 9) end
end
local begunAt, endsAt, ttlMs = struct.pack('>I8', micros), struct.pack('<d', now + leaseMs), string.format('%d', leaseMs + graceMs)
local pendingStart, pendingEnd, begunReply = 'g\\3P\\0' .. epoch .. position .. begunAt, endsAt .. position, begunAt .. position
local function pendingEntry(token) return pendingStart .. string.sub(token, 1, 8) .. token .. pendingEnd end
local function grantOn(key, flags, gen, token, leasePosition)
  local lease = (gen or begunAt .. string.sub(token, 1, 8)) .. token .. endsAt .. leasePosition
  local length = redis.call('STRLEN', key)
  if not gen then redis.call('SETRANGE', key, '3', string.char(flags + LEASED)) end
  redis.call('SETRANGE', key, gen and length - 48 or length, lease)
  local remainingMs = redis.call('PTTL', key)
  if remainingMs >= 0 and remainingMs < tonumber(ttlMs) then redis.call('PEXPIRE', key, ttlMs) end
end
local function acquireExisting(key, oldest, token, supersededAt)
  local state, flags, origin, gen, holder, untilAt, freshUntilAt, grantedAt, leasePosition = readEntry(key)
  local isActive = untilAt and untilAt > now
  local function granted()
    local earliestAt = (grantedAt or 0) + 1 / 1024
    if not gen and now >= earliestAt then return begunReply end
    local named = gen or begunAt .. string.sub(token, 1, 8)
    return { 'granted', named, string.format('%.17g', math.max(now, earliestAt)), leasePosition or position }
  end
  if state == 'unknown' then return { 'unknown-format' } end
  if not state or string.sub(origin, 1, 8) ~= epoch or struct.unpack('<d', origin, 9) < oldest
    or ((state == 'F' or state == 'X') and not isActive) then
    redis.call('SET', key, pendingEntry(token), 'PX', ttlMs)
    gen, leasePosition = nil, nil
    return granted()
  end
  if state == 'F' then return { 'failed', redis.call('GETRANGE', key, '28', '-1') } end
  if state == 'X' then return { 'uncacheable' } end
  local isFresh = state == 'V' and now < freshUntilAt
  if isFresh and grantedAt > math.abs(supersededAt) then return { 'value', redis.call('GET', key), tostring(now) } end
  if isActive and holder ~= token then
    if flags % 2 == 0 then redis.call('SETRANGE', key, '3', string.char(flags + 1)) end
    return gen .. struct.pack('<d', untilAt - now)
  end
  if isFresh and supersededAt < 0 then redis.call('SETRANGE', key, '20', struct.pack('<d', 0)) end
  grantOn(key, flags, gen, token, leasePosition or position)
  return granted()
end
local replies = {}
for i = 1, count do
  local key, oldest, token, supersededAt = KEYS[i], struct.unpack('<dc16d', requests, 32 * i - 31)
  local begun = supersededAt == 0 and redis.pcall('SET', key, pendingEntry(token), 'PX', ttlMs, 'NX')
  if begun and begun.ok then replies[i] = begunReply
  else replies[i] = acquireExisting(key, oldest, token, supersededAt) end
end
return replies`,
});
