import { defineScript, ENTRY } from "../define-script.js";

/**
 * Makes values stale and ends the leases on them: row 17 of PROTOCOL.md. Pending, failed and
 * uncacheable entries, and values for waiters only, are removed. Unknown
 * formats stay. Idempotent: a value that is already stale and has no lease does not change. Returns `callerId`.
 */
export const softInvalidate = defineScript({
  name: "soft-invalidate",
  args: ["wakeChannel", "callerId"],
  lua: `${ENTRY}
for _, key in ipairs(KEYS) do
  local state, flags, origin, gen, _, _, freshUntilAt = readEntry(key)
  if state == 'V' and freshUntilAt >= 0 then
    rewriteValue(key, flags % 8 >= 4 and 4 or 0, 0, origin, gen)
    wakeWaiters(wakeChannel, key, flags, gen)
  elseif state and state ~= 'unknown' then
    redis.call('UNLINK', key)
    wakeWaiters(wakeChannel, key, flags, gen)
  end
end
return callerId`,
});
