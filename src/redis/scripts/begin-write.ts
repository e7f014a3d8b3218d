import { defineScript, ENTRY_HEAD } from "../define-script.js";

/** Puts a writeMark where an entry was, or joins the one that is there; transition 19. The body lists the writers, 16 bytes each. Idempotent for one writer. What was there is deleted first, for a full server (see change-tags). */
export const beginWrite = defineScript({
  name: "begin-write",
  args: ["wakeChannel", "writer", "writeGuardMs"],
  lua: `${ENTRY_HEAD}
for _, key in ipairs(KEYS) do
  local e = head(key)
  local untilAt, writers = now + writeGuardMs, writer
  if e and e.state == 'T' then
    untilAt = math.max(untilAt, e.untilAt)
    local others = redis.call('GETRANGE', key, 72, -1)
    for at = 1, #others, 16 do
      local other = string.sub(others, at, at + 15)
      if other ~= writer then writers = writers .. other end
    end
  end
  redis.call('UNLINK', key)
  redis.call('SET', key, write({ state = 'T', untilAt = untilAt, signature = string.sub(NONE, 1, 8), body = writers }), 'PX', untilAt - now)
  wake(wakeChannel, key, e)
end
return 1`,
});
