import { defineScript, ENTRY_HEAD } from "../define-script.js";

/**
 * Grants leases: rows 1 to 10 of PROTOCOL.md. Each key is followed by its signature, supersededAt and
 * endsFreshness (1 or 0).
 *
 * Idempotent per `tokenBase`: a client that reconnects before the reply arrives sends the same
 * lease request again and is granted the lease it already holds. Any other call is a new request
 * with tokens of its own. `notAfter` (0: none) refuses all requests of a caller that has stopped
 * waiting by then. A new lease chain is named by the time and 8 bytes of the call: a request that
 * runs again after its chain has ended starts another chain, so the late store of the first one is
 * still refused.
 */
export const acquire = defineScript({
  name: "acquire",
  args: ["leaseMs", "graceMs", "notAfter", "tokenBase"],
  perKey: 3,
  lua: `${ENTRY_HEAD}
if tonumber(notAfter) > 0 and now > tonumber(notAfter) then return 'expired' end
local untilAt, ttlMs = now + leaseMs, leaseMs + graceMs
local replies = {}
local function newGen(i) return struct.pack('>I8', micros) .. string.sub(tokenBase, 7, 12) .. struct.pack('<I2', i) end
for i, key in ipairs(KEYS) do
  local at = first + 3 * (i - 1)
  local signature, supersededAt, endsFreshness = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2] == '1'
  local token = tokenBase .. struct.pack('<I4', i)
  local entry, isUnknownFormat = readHead(key)
  local isActive = entry and entry.untilAt > now
  if isUnknownFormat then replies[i] = { 'unknown-format' }
  elseif entry and entry.state == 'T' and isActive then replies[i] = { 'write-in-progress' }
  elseif not entry or entry.state == 'T' or entry.signature ~= signature or ((entry.state == 'F' or entry.state == 'X') and not isActive) then
    local gen = newGen(i)
    redis.call('SET', key, encodeEntry({ state = 'P', gen = gen, token = token, untilAt = untilAt, signature = signature }), 'PX', ttlMs)
    replies[i] = { 'granted', gen, token, tostring(now), 0 }
  elseif entry.state == 'F' then replies[i] = { 'failed', redis.call('GETRANGE', key, 72, -1) }
  elseif entry.state == 'X' then replies[i] = { 'uncacheable' }
  elseif entry.state == 'V' and now < entry.freshUntilAt and entry.grantedAt > supersededAt then
    replies[i] = { 'value', redis.call('GET', key), tostring(now) }
  elseif isActive and entry.token ~= token then
    if entry.flags % 2 == 0 then redis.call('SETRANGE', key, 3, string.char(entry.flags + 1)) end
    replies[i] = { 'busy', entry.gen, tostring(entry.untilAt - now) }
  else
    local isTakenOver = entry.gen ~= NONE and entry.token ~= token
    local gen = entry.gen ~= NONE and entry.gen or newGen(i)
    redis.call('SETRANGE', key, 8, gen .. token .. struct.pack('<d', untilAt) .. (endsFreshness and now < entry.freshUntilAt and struct.pack('<d', 0) or ''))
    local remainingMs = redis.call('PTTL', key)
    if remainingMs >= 0 and remainingMs < ttlMs then redis.call('PEXPIRE', key, ttlMs) end
    replies[i] = { 'granted', gen, token, tostring(now), isTakenOver and 1 or 0 }
  end
end
return replies`,
});
