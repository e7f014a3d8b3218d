import { defineScript, ENTRY_HEAD } from "../define-script.js";

/**
 * Lets leases go without a value; transitions 14 to 16. Each key brings token, outcome, holdMs and the failure's description.
 * Idempotent: the first run takes the token away, so a second changes nothing.
 */
export const release = defineScript({
  name: "release",
  args: ["wakeChannel"],
  perKey: 4,
  lua: `${ENTRY_HEAD}
local out = {}
for i, key in ipairs(KEYS) do
  local at = first + 4 * (i - 1)
  local outcome, holdMs = ARGV[at + 1], tonumber(ARGV[at + 2])
  local e = head(key)
  out[i] = 0
  if e and e.token == ARGV[at] and e.token ~= NONE then
    out[i] = 1
    if outcome == 'uncacheable' then
      redis.call('SET', key, write({ state = 'X', untilAt = now + holdMs, signature = e.signature }), 'PX', holdMs)
    elseif e.state == 'V' then
      local isFailed = outcome == 'failed' and now >= e.freshUntilAt
      local flags = e.flags - e.flags % 2
      if isFailed and flags % 16 < 8 then flags = flags + 8 end
      local fresh = isFailed and now + holdMs or e.freshUntilAt
      redis.call('SETRANGE', key, 3, string.char(flags))
      redis.call('SETRANGE', key, 8, NONE .. NONE .. struct.pack('<dd', 0, fresh))
    elseif outcome == 'failed' then
      redis.call('SET', key, write({ state = 'F', untilAt = now + holdMs, signature = e.signature, body = ARGV[at + 3] }), 'PX', holdMs)
    else redis.call('DEL', key) end
    wake(wakeChannel, key, e)
  end
end
return out`,
});
