import { defineScript, ENTRY } from "../define-script.js";

/**
 * Stores values whose lease chain is still alive: rows 10 and 11 of PROTOCOL.md. Each key is
 * decided on its own; one that is refused does not affect the others. Each key is followed by gen,
 * dropAt (`never`: no expiry), and the bytes of the new entry before and after its epoch and position, which are
 * those of the lease. `kept` in the place of the first says that the stored body and its kind stay.
 * Returns 1 for each value that is stored, 0 for a refused one, and -1 for one that has expired.
 * Idempotent in effect: the first run ends the lease chain, so a second is refused.
 */
export const storeValues = defineScript({
  name: "store-values",
  args: ["wakeChannel"],
  perKey: 4,
  lua: `${ENTRY}
local replies = {}
for i, key in ipairs(KEYS) do
  local at = first + 4 * (i - 1)
  local state, flags, origin, gen, _, _, _, _, leasePosition = readEntry(key)
  local remainingMs, isKept = ARGV[at + 1] ~= 'never' and ARGV[at + 1] - now, ARGV[at + 2] == 'kept'
  if not gen or gen ~= ARGV[at] or (isKept and state ~= 'V') then replies[i] = 0
  elseif remainingMs and remainingMs <= 0 then
    redis.call('DEL', key)
    wakeWaiters(wakeChannel, key, flags, gen)
    replies[i] = -1
  else
    local entry
    origin = originOfLease(origin, leasePosition)
    if isKept then entry = headOf('V', flags % 8 >= 4 and 4 or 0, origin) .. ARGV[at + 3] .. redis.call('GETRANGE', key, '40', '-49')
    else entry = ARGV[at + 2] .. origin .. ARGV[at + 3] end
    if remainingMs then redis.call('SET', key, entry, 'PX', remainingMs) else redis.call('SET', key, entry) end
    wakeWaiters(wakeChannel, key, flags, gen, entry)
    replies[i] = 1
  end
end
return replies`,
});
