import { defineScript } from "../define-script.js";

/**
 * The nonces of tags: made of `nonceBase` where there is none, and kept for `ttlMs` more, so that a tag in use outlives every entry under it.
 * A tag under a write bracket answers with its fence, which is longer than a nonce. Idempotent but for the time it counts from.
 */
export const ensureTags = defineScript({
  name: "ensure-tags",
  args: ["nonceBase", "ttlMs"],
  lua: `
local out = {}
for i, tag in ipairs(KEYS) do
  local nonce = redis.call('GET', tag)
  if not nonce then
    nonce = nonceBase .. struct.pack('<I4', i)
    redis.call('SET', tag, nonce, 'PX', ttlMs)
  elseif #nonce == 16 and redis.call('PTTL', tag) < tonumber(ttlMs) then redis.call('PEXPIRE', tag, ttlMs) end
  out[i] = nonce
end
return out`,
});
