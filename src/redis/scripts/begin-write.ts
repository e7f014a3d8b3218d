import { defineScript, ENTRY } from "../define-script.js";

/**
 * Marks names as being written, adds a writer to existing marks, or renews its mark: row 19 of
 * PROTOCOL.md. The body of the mark lists the writers, 24 bytes each: the id, and the end of the
 * writer's mark. The keys are pairs of a name and the key under which `end-write` records that this
 * writer has ended.
 * Idempotent per writer: its id is listed once, and its end never moves back. A run after the writer
 * has ended does nothing: until `notAfter` the record of its end is there, and later every run is
 * refused as 'expired'. Returns `writer` otherwise.
 * The old entry is deleted first, because a full server allows a script to write only after it has
 * deleted something (see invalidate-tags).
 */
export const beginWrite = defineScript({
  name: "begin-write",
  args: ["wakeChannel", "writer", "writeGuardMs", "notAfter"],
  lua: `${ENTRY}
local NO_ORIGIN = string.rep('\\0', 24)
if now > tonumber(notAfter) then return 'expired' end
for i = 1, #KEYS, 2 do
  local key = KEYS[i]
  if redis.call('EXISTS', KEYS[i + 1]) == 0 then
    local state, flags, _, gen = readEntry(key)
    local endsAt, untilAt, others = now + writeGuardMs, 0, ''
    if state == 'T' then
      local listed = redis.call('GETRANGE', key, '36', '-1')
      for at = 1, #listed, 24 do
        local otherEndsAt = struct.unpack('<d', listed, at + 16)
        if string.sub(listed, at, at + 15) == writer then
          endsAt = math.max(endsAt, otherEndsAt)
        elseif otherEndsAt > now then
          others = others .. string.sub(listed, at, at + 23)
          untilAt = math.max(untilAt, otherEndsAt)
        end
      end
    end
    untilAt = math.max(untilAt, endsAt)
    local writers = writer .. struct.pack('<d', endsAt) .. others
    redis.call('UNLINK', key)
    redis.call('SET', key, entryUntil('T', untilAt, NO_ORIGIN, writers), 'PX', untilAt - now)
    wakeWaiters(wakeChannel, key, flags, gen)
  end
end
return writer`,
});
