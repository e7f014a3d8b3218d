import { defineScript, ENTRY_HEAD } from "../define-script.js";

/** Prolongs leases that are still their holders'; transition 13. Each key brings its token. Idempotent but for the time it counts from. */
export const renew = defineScript({
  name: "renew",
  args: ["leaseMs", "graceMs"],
  perKey: 1,
  lua: `${ENTRY_HEAD}
local keptMs = leaseMs + graceMs
local out = {}
for i, key in ipairs(KEYS) do
  local e = head(key)
  if e and e.token == ARGV[first + i - 1] and e.token ~= NONE then
    redis.call('SETRANGE', key, 40, struct.pack('<d', now + leaseMs))
    local left = redis.call('PTTL', key)
    if left >= 0 and left < keptMs then redis.call('PEXPIRE', key, keptMs) end
    out[i] = 1
  else out[i] = 0 end
end
return out`,
});
