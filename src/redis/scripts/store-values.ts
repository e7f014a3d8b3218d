import { defineScript, ENTRY_HEAD } from "../define-script.js";

/**
 * Stores values whose lease chain is still alive; transitions 11 and 12. One refused key leaves the others alone.
 * Each key brings gen, grantedAt, loadMs, isNegative (1 or 0), freshMs, ttlMs (0: never) and the body.
 * Idempotent in effect: the first run ends the chain, so a second is refused.
 */
export const storeValues = defineScript({
  name: "store-values",
  args: ["wakeChannel"],
  perKey: 7,
  lua: `${ENTRY_HEAD}
local out = {}
for i, key in ipairs(KEYS) do
  local at = first + 7 * (i - 1)
  local e = head(key)
  local grantedAt, ttlMs = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 5])
  local leftMs = grantedAt + ttlMs - now
  if not e or e.gen == NONE or e.gen ~= ARGV[at] or (e.state ~= 'P' and e.state ~= 'V') then out[i] = 'refused'
  elseif ttlMs > 0 and leftMs <= 0 then
    redis.call('DEL', key)
    wake(wakeChannel, key, e)
    out[i] = 'expired'
  else
    local entry = write({ state = 'V', flags = 4 * ARGV[at + 3], loadMs = tonumber(ARGV[at + 2]), freshUntilAt = grantedAt + ARGV[at + 4],
      grantedAt = grantedAt, signature = e.signature, body = ARGV[at + 6] })
    if ttlMs > 0 then redis.call('SET', key, entry, 'PX', leftMs) else redis.call('SET', key, entry) end
    wake(wakeChannel, key, e)
    out[i] = 'stored'
  end
end
return out`,
});
