import { defineScript, ENTRY_HEAD } from "../define-script.js";

/**
 * Marks names as being written, or adds a writer to existing marks: row 19 of PROTOCOL.md. The body
 * of the mark lists the writers, 16 bytes each. The keys are pairs of a name and the key under which
 * `end-write` records that this writer has ended.
 * Idempotent per writer: its id is listed once. A run after the writer has ended does nothing: until
 * `notAfter` the record of its end is there, and later every run is refused as 'expired'.
 * The old entry is deleted first, because a full server allows a script to write only after it has
 * deleted something (see change-tags).
 */
export const beginWrite = defineScript({
  name: "begin-write",
  args: ["wakeChannel", "writer", "writeGuardMs", "notAfter"],
  lua: `${ENTRY_HEAD}
if now > tonumber(notAfter) then return 'expired' end
for i = 1, #KEYS, 2 do
  local key = KEYS[i]
  if redis.call('EXISTS', KEYS[i + 1]) == 0 then
    local entry = readHead(key)
    local untilAt, writers = now + writeGuardMs, writer
    if entry and entry.state == 'T' then
      untilAt = math.max(untilAt, entry.untilAt)
      local others = redis.call('GETRANGE', key, 72, -1)
      for at = 1, #others, 16 do
        local other = string.sub(others, at, at + 15)
        if other ~= writer then writers = writers .. other end
      end
    end
    redis.call('UNLINK', key)
    redis.call('SET', key, encodeEntry({ state = 'T', untilAt = untilAt, signature = string.sub(NONE, 1, 8), body = writers }), 'PX', untilAt - now)
    wakeWaiters(wakeChannel, key, entry)
  end
end
return 1`,
});
