import { defineScript, ENTRY_HEAD } from "../define-script.js";

/**
 * Grants leases; transitions 1 to 10. Each key brings its signature and supersededAt.
 * Idempotent for one `tokenBase`: a client that lost its connection before the answer sends the leaseRequest again, and is granted what it holds
 * already; every other run is a leaseRequest of its own, with tokens of its own.
 * `notAfter` (0: none) refuses all leaseRequests of a caller who has given up by then.
 */
export const acquire = defineScript({
  name: "acquire",
  args: ["leaseMs", "graceMs", "notAfter", "tokenBase"],
  perKey: 2,
  lua: `${ENTRY_HEAD}
if tonumber(notAfter) > 0 and now > tonumber(notAfter) then return 'expired' end
local untilAt, keptMs = now + leaseMs, leaseMs + graceMs
local out = {}
for i, key in ipairs(KEYS) do
  local signature, supersededAt = ARGV[first + 2 * i - 2], tonumber(ARGV[first + 2 * i - 1])
  local token = tokenBase .. struct.pack('<I4', i)
  local e, isUnknownFormat = head(key)
  local hasLease = e and e.untilAt > now
  if isUnknownFormat then out[i] = { 'unknown-format' }
  elseif e and e.state == 'T' and hasLease then out[i] = { 'write-in-progress' }
  elseif not e or e.state == 'T' or e.signature ~= signature or ((e.state == 'F' or e.state == 'X') and not hasLease) then
    redis.call('SET', key, write({ state = 'P', gen = token, token = token, untilAt = untilAt, signature = signature }), 'PX', keptMs)
    out[i] = { 'granted', token, token, tostring(now), 0 }
  elseif e.state == 'F' then out[i] = { 'failed', redis.call('GETRANGE', key, 72, -1) }
  elseif e.state == 'X' then out[i] = { 'uncacheable' }
  elseif e.state == 'V' and now < e.freshUntilAt and e.grantedAt > supersededAt then
    out[i] = { 'value', redis.call('GET', key), tostring(now) }
  elseif hasLease and e.token ~= token then
    if e.flags % 2 == 0 then redis.call('SETRANGE', key, 3, string.char(e.flags + 1)) end
    out[i] = { 'busy', e.gen, tostring(e.untilAt - now) }
  else
    local isTakenOver = e.gen ~= NONE and e.gen ~= token
    local gen = isTakenOver and e.gen or token
    redis.call('SETRANGE', key, 8, gen .. token .. struct.pack('<d', untilAt))
    local left = redis.call('PTTL', key)
    if left >= 0 and left < keptMs then redis.call('PEXPIRE', key, keptMs) end
    out[i] = { 'granted', gen, token, tostring(now), isTakenOver and 1 or 0 }
  end
end
return out`,
});
