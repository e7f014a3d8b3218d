import { defineScript, ENTRY_HEAD } from "../define-script.js";

/**
 * Makes values stale and ends the leases on them: row 18 of PROTOCOL.md. Pending, failed and
 * uncacheable entries are removed, as by a hard invalidation. Marks of writes in progress and
 * unknown formats stay. Idempotent: a value that is already stale and has no lease does not change.
 */
export const softInvalidate = defineScript({
  name: "soft-invalidate",
  args: ["wakeChannel"],
  lua: `${ENTRY_HEAD}
for _, key in ipairs(KEYS) do
  local entry = readHead(key)
  if entry and entry.state == 'V' then
    redis.call('SETRANGE', key, 3, string.char(entry.flags - entry.flags % 2 - (entry.flags % 16 >= 8 and 8 or 0)))
    redis.call('SETRANGE', key, 8, NONE .. NONE .. struct.pack('<dd', 0, 0))
    wakeWaiters(wakeChannel, key, entry)
  elseif entry and entry.state ~= 'T' then
    redis.call('UNLINK', key)
    wakeWaiters(wakeChannel, key, entry)
  end
end
return 1`,
});
