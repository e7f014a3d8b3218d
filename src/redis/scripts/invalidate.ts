import { defineScript, ENTRY_HEAD, MARKER } from "../define-script.js";

/**
 * Removes entries and, with them, their lease chains: rows 17 and 21 of PROTOCOL.md. Entries of any
 * format are removed, those of another release too. Only the mark of a write in progress stays: an
 * unrelated invalidation must not end another process's write. The first key is a marker, see MARKER;
 * returns where it is.
 * Idempotent: removing an absent entry changes nothing.
 */
export const invalidate = defineScript({
  name: "invalidate",
  args: ["wakeChannel", "nth", "markerMs"],
  lua: `${ENTRY_HEAD}${MARKER}
for i = 2, #KEYS do
  local key = KEYS[i]
  local entry = readHead(key)
  if not entry or entry.state ~= 'T' then
    redis.call('UNLINK', key)
    wakeWaiters(wakeChannel, key, entry)
  end
end
return advance(KEYS[1], tonumber(nth), markerMs)`,
});
