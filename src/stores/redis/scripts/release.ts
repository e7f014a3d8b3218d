import { defineScript, ENTRY } from "../define-script.js";

/**
 * Releases leases without storing a value: rows 13 to 15 of PROTOCOL.md. Each key is followed by
 * its token, outcome, holdMs and the body: why the load failed, or why its value cannot be stored.
 * Returns 1 for each lease that was still held. Idempotent: the first run removes the token, so a
 * second changes nothing.
 */
export const release = defineScript({
  name: "release",
  args: ["wakeChannel"],
  perKey: 4,
  lua: `${ENTRY}
local replies = {}
for i, key in ipairs(KEYS) do
  local at = first + 4 * (i - 1)
  local outcome, holdMs = ARGV[at + 1], tonumber(ARGV[at + 2])
  local state, flags, origin, gen, token, _, freshUntilAt, _, leasePosition = readEntry(key)
  local result
  replies[i] = 0
  if token and token == ARGV[at] then
    replies[i] = 1
    if outcome == 'uncacheable' then
      redis.call('SET', key, entryUntil('X', now + holdMs, originOfLease(origin, leasePosition), ARGV[at + 3]), 'PX', holdMs)
    elseif state == 'V' and freshUntilAt >= 0 and (outcome ~= 'gone' or now < freshUntilAt) then
      local hasFailed = outcome == 'failed' and now >= freshUntilAt
      local kept = flags - flags % 4
      if hasFailed and kept < 8 then kept = kept + 8 end
      rewriteValue(key, kept, hasFailed and now + holdMs or freshUntilAt, origin, true)
    elseif outcome ~= 'abandoned' then
      result = entryUntil('F', now + holdMs, originOfLease(origin, leasePosition), ARGV[at + 3])
      redis.call('SET', key, result, 'PX', holdMs)
    else redis.call('DEL', key) end
    wakeWaiters(wakeChannel, key, flags, gen, result)
  end
end
return replies`,
});
