import { defineScript, ENTRY } from "../define-script.js";

/**
 * Removes one writer from the marks of writes in progress, and each mark with its last writer: row
 * 20 of PROTOCOL.md. The keys are pairs of a name and the key that records for `endedMs` that this
 * writer has ended, so that a begin-write of it that arrives later does nothing.
 * Idempotent: a writer that is not listed changes nothing. Returns `writer`.
 * The record is written last, and may fail on a full server: without it, the worst case is a mark
 * that lasts for its guard time.
 */
export const endWrite = defineScript({
  name: "end-write",
  args: ["writer", "endedMs"],
  lua: `${ENTRY}
for i = 1, #KEYS, 2 do
  local key = KEYS[i]
  local state, _, signature = readEntry(key)
  if state == 'T' then
    local writers, others, untilAt = redis.call('GETRANGE', key, '20', '-1'), '', 0
    for at = 1, #writers, 24 do
      if string.sub(writers, at, at + 15) ~= writer then
        others = others .. string.sub(writers, at, at + 23)
        untilAt = math.max(untilAt, (struct.unpack('<d', writers, at + 16)))
      end
    end
    if #others == 0 then redis.call('DEL', key)
    elseif #others < #writers then
      redis.call('SET', key, entryUntil('T', untilAt, signature, others), 'PX', math.max(1, untilAt - now))
    end
  end
  redis.pcall('SET', KEYS[i + 1], '', 'PX', endedMs)
end
return writer`,
});
