import { defineScript, ENTRY } from "../define-script.js";

/**
 * Removes one writer from the marks of writes in progress, with the writers whose time is over, and
 * each mark with its last writer: row 20 of PROTOCOL.md. The keys are pairs of a name and the key
 * that records for `endedMs` that this writer has ended, so that a begin-write of it that arrives
 * later does nothing.
 * Idempotent: a writer that is not listed changes nothing for the others. Returns `writer`.
 * The record is written last, and may fail on a full server: without it, the worst case is a mark
 * that lasts for its guard time.
 */
export const endWrite = defineScript({
  name: "end-write",
  args: ["writer", "endedMs"],
  lua: `${ENTRY}
for i = 1, #KEYS, 2 do
  local key = KEYS[i]
  local state, _, origin = readEntry(key)
  if state == 'T' then
    local writers, others, untilAt = redis.call('GETRANGE', key, '36', '-1'), '', 0
    for at = 1, #writers, 24 do
      local endsAt = struct.unpack('<d', writers, at + 16)
      if string.sub(writers, at, at + 15) ~= writer and endsAt > now then
        others = others .. string.sub(writers, at, at + 23)
        untilAt = math.max(untilAt, endsAt)
      end
    end
    if #others == 0 then redis.call('DEL', key)
    elseif #others < #writers then
      redis.call('SET', key, entryUntil('T', untilAt, origin, others), 'PX', untilAt - now)
    end
  end
  redis.pcall('SET', KEYS[i + 1], '', 'PX', endedMs)
end
return writer`,
});
