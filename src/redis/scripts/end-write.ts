import { defineScript, ENTRY_HEAD } from "../define-script.js";

/** Takes one writer out of a writeMark, and the writeMark away after the last; transition 20. Idempotent. */
export const endWrite = defineScript({
  name: "end-write",
  args: ["wakeChannel", "writer"],
  lua: `${ENTRY_HEAD}
for _, key in ipairs(KEYS) do
  local e = head(key)
  if e and e.state == 'T' then
    local writers, others = redis.call('GETRANGE', key, 72, -1), ''
    for at = 1, #writers, 16 do
      local other = string.sub(writers, at, at + 15)
      if other ~= writer then others = others .. other end
    end
    if #others == 0 then redis.call('DEL', key)
    elseif #others < #writers then
      redis.call('SET', key, write({ state = 'T', untilAt = e.untilAt, signature = e.signature, body = others }), 'PX', math.max(1, e.untilAt - now))
    end
    if #others == 0 then wake(wakeChannel, key, e) end
  end
end
return 1`,
});
