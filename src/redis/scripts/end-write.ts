import { defineScript, ENTRY_HEAD } from "../define-script.js";

/**
 * Removes one writer from the marks of writes in progress, and each mark with its last writer: row
 * 20 of PROTOCOL.md. Idempotent: a writer that is not listed changes nothing.
 */
export const endWrite = defineScript({
  name: "end-write",
  args: ["wakeChannel", "writer"],
  lua: `${ENTRY_HEAD}
for _, key in ipairs(KEYS) do
  local entry = readHead(key)
  if entry and entry.state == 'T' then
    local writers, others = redis.call('GETRANGE', key, 72, -1), ''
    for at = 1, #writers, 16 do
      local other = string.sub(writers, at, at + 15)
      if other ~= writer then others = others .. other end
    end
    if #others == 0 then redis.call('DEL', key)
    elseif #others < #writers then
      redis.call('SET', key, encodeEntry({ state = 'T', untilAt = entry.untilAt, signature = entry.signature, body = others }), 'PX', math.max(1, entry.untilAt - now))
    end
    if #others == 0 then wakeWaiters(wakeChannel, key, entry) end
  end
end
return 1`,
});
