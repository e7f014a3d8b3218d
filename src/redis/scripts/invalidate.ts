import { defineScript, ENTRY } from "../define-script.js";

/**
 * Removes entries and, with them, their lease chains: rows 17 and 21 of PROTOCOL.md. Entries of any
 * format are removed, those of another release too. Only the mark of a write in progress stays: an
 * unrelated invalidation must not end another process's write.
 * Idempotent: removing an absent entry changes nothing. Returns `callerId`.
 */
export const invalidate = defineScript({
  name: "invalidate",
  args: ["callerId", "wakeChannel"],
  lua: `${ENTRY}
for _, key in ipairs(KEYS) do
  local state, flags, _, gen = readEntry(key)
  if state ~= 'T' then
    redis.call('UNLINK', key)
    wakeWaiters(wakeChannel, key, flags, gen)
  end
end
return callerId`,
});
