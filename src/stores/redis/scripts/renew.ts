import { defineScript, ENTRY } from "../define-script.js";

/**
 * Extends leases that are still held: row 12 of PROTOCOL.md. Values of a key: its token.
 * Returns 1 for each lease that is held and 0 for each that is lost.
 * Idempotent, except that the new lease counts from the latest run.
 */
export const renew = defineScript({
  name: "renew",
  args: ["leaseMs", "graceMs"],
  lua: `${ENTRY}
local ttlMs, endsAt = leaseMs + graceMs, struct.pack('<d', now + leaseMs)
local replies = {}
for i, key in ipairs(KEYS) do
  local _, _, _, _, token = readEntry(key)
  if token and token == string.sub(ARGV[first], 16 * i - 15, 16 * i) then
    redis.call('SETRANGE', key, redis.call('STRLEN', key) - 16, endsAt)
    local remainingMs = redis.call('PTTL', key)
    if remainingMs >= 0 and remainingMs < ttlMs then redis.call('PEXPIRE', key, ttlMs) end
    replies[i] = 1
  else replies[i] = 0 end
end
return replies`,
});
