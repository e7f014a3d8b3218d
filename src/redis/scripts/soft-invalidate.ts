import { defineScript, ENTRY_HEAD } from "../define-script.js";

/**
 * Outdates values and ends the leases on them; transition 18. What is pending or failed goes, as by an invalidation; writeMarks, and what is no
 * entry of this format, stay. Idempotent.
 */
export const softInvalidate = defineScript({
  name: "soft-invalidate",
  args: ["wakeChannel"],
  lua: `${ENTRY_HEAD}
for _, key in ipairs(KEYS) do
  local e = head(key)
  if e and e.state == 'V' then
    redis.call('SETRANGE', key, 3, string.char(e.flags - e.flags % 2 - (e.flags % 16 >= 8 and 8 or 0)))
    redis.call('SETRANGE', key, 8, NONE .. NONE .. struct.pack('<dd', 0, 0))
    wake(wakeChannel, key, e)
  elseif e and e.state ~= 'T' then
    redis.call('UNLINK', key)
    wake(wakeChannel, key, e)
  end
end
return 1`,
});
