import { defineScript, ENTRY } from "../define-script.js";

/**
 * Grants leases: rows 1 to 10 of PROTOCOL.md. Each key is followed by its signature, the token of the
 * request, and supersededAt: empty if the caller has seen no value, negated if the grant ends the
 * freshness of that value.
 *
 * Idempotent per token: a client that reconnects before the reply arrives sends the same lease request
 * again and is granted the lease it already holds. Any other call has tokens of its own. `notAfter`
 * (0: none) refuses all requests of a caller that has stopped waiting by then. A new lease chain is
 * named by the time in microseconds and the first half of the token: a request that runs again after
 * its chain has ended starts another chain, so the late store of the first one is still refused.
 *
 * Replies per key: that time (8 bytes) if a chain has begun; the gen and the remaining time (f64) if
 * another caller holds the lease; otherwise a list. These two are most replies, and cost the least.
 * An absent key, the most frequent case, is one command. A full server refuses that command for any
 * key, so its failure says nothing about the key.
 */
export const acquire = defineScript({
  name: "acquire",
  args: ["leaseMs", "graceMs", "notAfter"],
  perKey: 3,
  lua: `${ENTRY}
if tonumber(notAfter) > 0 and now > tonumber(notAfter) then return 'expired' end
local begunAt, endsAt, ttlMs = struct.pack('>I8', micros), struct.pack('<d', now + leaseMs), string.format('%d', leaseMs + graceMs)
local function pendingEntry(signature, token) return 'g\\2P\\0' .. signature .. begunAt .. string.sub(token, 1, 8) .. token .. endsAt end
local function grantOn(key, flags, gen, token)
  local lease = (gen or begunAt .. string.sub(token, 1, 8)) .. token .. endsAt
  local length = redis.call('STRLEN', key)
  if not gen then redis.call('SETRANGE', key, '3', string.char(flags + LEASED)) end
  redis.call('SETRANGE', key, gen and length - 40 or length, lease)
  local remainingMs = redis.call('PTTL', key)
  if remainingMs >= 0 and remainingMs < tonumber(ttlMs) then redis.call('PEXPIRE', key, ttlMs) end
end
local function acquireExisting(key, signature, token, superseded)
  local state, flags, knownSignature, gen, holder, untilAt, freshUntilAt, grantedAt = readEntry(key)
  local isActive = untilAt and untilAt > now
  if state == 'unknown' then return { 'unknown-format' } end
  if state == 'T' and isActive then return { 'write-in-progress' } end
  if not state or state == 'T' or knownSignature ~= signature or ((state == 'F' or state == 'X') and not isActive) then
    redis.call('SET', key, pendingEntry(signature, token), 'PX', ttlMs)
    return begunAt
  end
  if state == 'F' then return { 'failed', redis.call('GETRANGE', key, '20', '-1') } end
  if state == 'X' then return { 'uncacheable' } end
  local supersededAt, isFresh = tonumber(superseded) or 0, state == 'V' and now < freshUntilAt
  if isFresh and grantedAt > math.abs(supersededAt) then return { 'value', redis.call('GET', key), tostring(now) } end
  if isActive and holder ~= token then
    if flags % 2 == 0 then redis.call('SETRANGE', key, '3', string.char(flags + 1)) end
    return gen .. struct.pack('<d', untilAt - now)
  end
  if isFresh and supersededAt < 0 then redis.call('SETRANGE', key, '12', struct.pack('<d', 0)) end
  grantOn(key, flags, gen, token)
  if gen then return { 'granted', gen, tostring(now), holder ~= token and 1 or 0 } end
  return begunAt
end
local replies = {}
for i, key in ipairs(KEYS) do
  local at = first + 3 * (i - 1)
  local signature, token, superseded = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local begun = superseded == '' and redis.pcall('SET', key, pendingEntry(signature, token), 'PX', ttlMs, 'NX')
  if begun and begun.ok then replies[i] = begunAt
  else replies[i] = acquireExisting(key, signature, token, superseded) end
end
return replies`,
});
