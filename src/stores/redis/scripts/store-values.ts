import { defineScript, ENTRY } from "../define-script.js";

/**
 * Stores values whose lease chain is still alive: rows 10 and 11 of PROTOCOL.md. Each key is
 * decided on its own; one that is refused does not affect the others. Each key is followed by gen,
 * dropAt (`never`: no expiry), and the bytes of the new entry before and after its epoch and
 * position, which are those of the lease. Returns 1 for each value that is stored, 0 for a refused
 * one, and -1 for one that has expired. Idempotent in effect: the first run ends the lease chain,
 * so a second is refused.
 */
export const storeValues = defineScript({
  name: "store-values",
  args: ["wakeChannel"],
  perKey: 4,
  lua: `${ENTRY}
local replies = {}
for i, key in ipairs(KEYS) do
  local at = first + 4 * (i - 1)
  local _, flags, origin, gen, _, _, _, _, leasePosition = readEntry(key)
  local remainingMs = ARGV[at + 1] ~= 'never' and ARGV[at + 1] - now
  if not gen or gen ~= ARGV[at] then replies[i] = 0
  elseif remainingMs and remainingMs <= 0 then
    redis.call('DEL', key)
    wakeWaiters(wakeChannel, key, flags, gen)
    replies[i] = -1
  else
    local entry = ARGV[at + 2] .. originOfLease(origin, leasePosition) .. ARGV[at + 3]
    if remainingMs then redis.call('SET', key, entry, 'PX', remainingMs) else redis.call('SET', key, entry) end
    wakeWaiters(wakeChannel, key, flags, gen, entry)
    replies[i] = 1
  end
end
return replies`,
});
