import { defineScript, ENTRY } from "../define-script.js";

/**
 * Removes entries of any format, and with them their leases: row 16 of PROTOCOL.md.
 * Idempotent: removing an absent entry changes nothing. Returns 1.
 */
export const remove = defineScript({
  name: "remove",
  args: ["wakeChannel"],
  lua: `${ENTRY}
for _, key in ipairs(KEYS) do
  local _, flags, _, gen = readEntry(key)
  redis.call('UNLINK', key)
  wakeWaiters(wakeChannel, key, flags, gen)
end
return 1`,
});
