import { defineScript, ENTRY } from "../define-script.js";

/**
 * Removes entries of any format, and with them their leases: row 16 of PROTOCOL.md. With `soft`
 * (1), row 17: makes values stale and ends the leases on them; pending, failed and uncacheable
 * entries, and values for waiters only, are removed, and unknown formats stay. Idempotent: an
 * absent entry, or a value that is already stale and has no lease, does not change. Returns
 * `callerId`.
 */
export const remove = defineScript({
  name: "remove",
  args: ["wakeChannel", "soft", "callerId"],
  lua: `${ENTRY}
for _, key in ipairs(KEYS) do
  local state, flags, origin, gen, _, _, freshUntilAt = readEntry(key)
  if soft == '1' and state == 'V' and freshUntilAt >= 0 then
    rewriteValue(key, flags % 8 >= 4 and 4 or 0, 0, origin, gen)
    wakeWaiters(wakeChannel, key, flags, gen)
  elseif soft ~= '1' or (state and state ~= 'unknown') then
    redis.call('UNLINK', key)
    wakeWaiters(wakeChannel, key, flags, gen)
  end
end
return callerId`,
});
