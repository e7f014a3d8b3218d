import { defineScript, ENTRY } from "../define-script.js";

/**
 * Stores values whose lease chain is still alive: rows 10 and 11 of PROTOCOL.md. Each key is
 * decided on its own; one that is refused does not affect the others. Values of a key: gen, dropAt
 * (infinite: no expiry), the length of the body, and the new entry without its epoch and position,
 * which are those of the lease. Returns 1 for each value that is stored, 0 for a refused one, and
 * -1 for one that has expired. Idempotent in effect: the first run ends the lease chain, so a
 * second is refused.
 */
export const storeValues = defineScript({
  name: "store-values",
  args: ["wakeChannel"],
  lua: `${ENTRY}
local replies, at = {}, 1
for i, key in ipairs(KEYS) do
  local expected, dropAt, length, start, numbers, bodyStartsAt = struct.unpack('<c16ddc4c20', ARGV[first], at)
  local body
  body, at = bodyAt(bodyStartsAt, length)
  local _, flags, origin, gen, _, _, _, _, leasePosition = readEntry(key)
  local remainingMs = dropAt - now
  if not gen or gen ~= expected then replies[i] = 0
  elseif remainingMs <= 0 then
    redis.call('DEL', key)
    wakeWaiters(wakeChannel, key, flags, gen)
    replies[i] = -1
  else
    local entry = start .. originOfLease(origin, leasePosition) .. numbers .. body
    if dropAt == math.huge then redis.call('SET', key, entry) else redis.call('SET', key, entry, 'PX', remainingMs) end
    wakeWaiters(wakeChannel, key, flags, gen, entry)
    replies[i] = 1
  end
end
return replies`,
});
