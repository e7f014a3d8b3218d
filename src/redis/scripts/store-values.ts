import { defineScript, ENTRY_HEAD } from "../define-script.js";

/**
 * Stores values whose lease chain is still alive: rows 11 and 12 of PROTOCOL.md. Each key is
 * decided on its own; one that is refused does not affect the others. Each key is followed by gen,
 * grantedAt, loadMs, isNegative (1 or 0, or `kept`: the stored value stays), freshMs, ttlMs (`never`:
 * no expiry) and the body.
 * Idempotent in effect: the first run ends the lease chain, so a second is refused.
 */
export const storeValues = defineScript({
  name: "store-values",
  args: ["wakeChannel"],
  perKey: 7,
  lua: `${ENTRY_HEAD}
local replies = {}
for i, key in ipairs(KEYS) do
  local at = first + 7 * (i - 1)
  local entry = readHead(key)
  local grantedAt, isLasting = tonumber(ARGV[at + 1]), ARGV[at + 5] == 'never'
  local isKept = ARGV[at + 3] == 'kept'
  local remainingMs = isLasting or grantedAt + ARGV[at + 5] - now
  if not entry or entry.gen == NONE or entry.gen ~= ARGV[at] or (entry.state ~= 'V' and (entry.state ~= 'P' or isKept)) then replies[i] = 'refused'
  elseif not isLasting and remainingMs <= 0 then
    redis.call('DEL', key)
    wakeWaiters(wakeChannel, key, entry)
    replies[i] = 'expired'
  else
    local flags = isKept and entry.flags - entry.flags % 4 - (entry.flags >= 8 and 8 or 0) or 4 * ARGV[at + 3]
    local body = isKept and redis.call('GETRANGE', key, 72, -1) or ARGV[at + 6]
    local bytes = encodeEntry({ state = 'V', flags = flags, loadMs = tonumber(ARGV[at + 2]), freshUntilAt = grantedAt + ARGV[at + 4],
      grantedAt = grantedAt, signature = entry.signature, body = body })
    if isLasting then redis.call('SET', key, bytes) else redis.call('SET', key, bytes, 'PX', remainingMs) end
    wakeWaiters(wakeChannel, key, entry, bytes)
    replies[i] = 'stored'
  end
end
return replies`,
});
