import { defineScript, ENTRY_HEAD } from "../define-script.js";

/**
 * Removes entries and with them their lease chains; transitions 17 and 21. Whatever the format: an entry of another release goes too.
 * Only a write bracket stays, since a stray invalidation must not lift another's writeMark. Idempotent.
 */
export const invalidate = defineScript({
  name: "invalidate",
  args: ["wakeChannel"],
  lua: `${ENTRY_HEAD}
for _, key in ipairs(KEYS) do
  local e = head(key)
  if not e or e.state ~= 'T' then
    redis.call('UNLINK', key)
    wake(wakeChannel, key, e)
  end
end
return 1`,
});
