import { defineScript, ENTRY } from "../define-script.js";

/**
 * Releases leases without storing a value: rows 13 to 15 of PROTOCOL.md. Values of a key: its
 * token, the first letter of the outcome, holdMs, and the length of the body and the body: why the
 * load failed, or why its value cannot be stored. Returns 1 for each lease that was still held.
 * Idempotent: the first run removes the token, so a second changes nothing.
 */
export const release = defineScript({
  name: "release",
  args: ["wakeChannel"],
  lua: `${ENTRY}
local replies, at = {}, 1
for i, key in ipairs(KEYS) do
  local expected, outcome, holdMs, length, bodyStartsAt = struct.unpack('<c16c1dd', ARGV[first], at)
  local body
  body, at = bodyAt(bodyStartsAt, length)
  local state, flags, origin, gen, token, _, freshUntilAt, _, leasePosition = readEntry(key)
  local result
  replies[i] = 0
  if token and token == expected then
    replies[i] = 1
    if outcome == 'u' then
      redis.call('SET', key, entryUntil('X', now + holdMs, originOfLease(origin, leasePosition), body), 'PX', holdMs)
    elseif state == 'V' and freshUntilAt >= 0 and (outcome ~= 'g' or now < freshUntilAt) then
      local hasFailed = outcome == 'f' and now >= freshUntilAt
      local kept = flags - flags % 4
      if hasFailed and kept < 8 then kept = kept + 8 end
      rewriteValue(key, kept, hasFailed and now + holdMs or freshUntilAt, origin, true)
    elseif outcome ~= 'a' then
      result = entryUntil('F', now + holdMs, originOfLease(origin, leasePosition), body)
      redis.call('SET', key, result, 'PX', holdMs)
    else redis.call('DEL', key) end
    wakeWaiters(wakeChannel, key, flags, gen, result)
  end
end
return replies`,
});
