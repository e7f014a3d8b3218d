import { defineScript, ENTRY_HEAD } from "../define-script.js";

/**
 * Releases leases without storing a value: rows 14 to 16 of PROTOCOL.md. Each key is followed by
 * its token, outcome, holdMs and the body: why the load failed, or why its value cannot be stored. Returns 1 for each lease that was
 * still held. Idempotent: the first run removes the token, so a second changes nothing.
 */
export const release = defineScript({
  name: "release",
  args: ["wakeChannel"],
  perKey: 4,
  lua: `${ENTRY_HEAD}
local replies = {}
for i, key in ipairs(KEYS) do
  local at = first + 4 * (i - 1)
  local outcome, holdMs = ARGV[at + 1], tonumber(ARGV[at + 2])
  local entry = readHead(key)
  local result
  replies[i] = 0
  if entry and entry.token == ARGV[at] and entry.token ~= NONE then
    replies[i] = 1
    if outcome == 'uncacheable' then
      redis.call('SET', key, encodeEntry({ state = 'X', untilAt = now + holdMs, signature = entry.signature, body = ARGV[at + 3] }), 'PX', holdMs)
    elseif entry.state == 'V' then
      local hasFailed = outcome == 'failed' and now >= entry.freshUntilAt
      local flags = entry.flags - entry.flags % 2
      if hasFailed and flags % 16 < 8 then flags = flags + 8 end
      local freshUntilAt = hasFailed and now + holdMs or entry.freshUntilAt
      redis.call('SETRANGE', key, 3, string.char(flags))
      redis.call('SETRANGE', key, 8, NONE .. NONE .. struct.pack('<dd', 0, freshUntilAt))
    elseif outcome == 'failed' then
      result = encodeEntry({ state = 'F', untilAt = now + holdMs, signature = entry.signature, body = ARGV[at + 3] })
      redis.call('SET', key, result, 'PX', holdMs)
    else redis.call('DEL', key) end
    wakeWaiters(wakeChannel, key, entry, result)
  end
end
return replies`,
});
