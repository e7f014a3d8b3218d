import { defineScript } from "../define-script.js";

/** Gives tags new nonces, made of `nonceBase`; a tag without one needs none, and one under a write bracket keeps its fence. Idempotent in effect: what a nonce is does not matter, only that it is new. */
export const changeTags = defineScript({
  name: "change-tags",
  args: ["nonceBase"],
  lua: `
for i, tag in ipairs(KEYS) do
  if redis.call('STRLEN', tag) == 16 then redis.call('SET', tag, nonceBase .. struct.pack('<I4', i), 'KEEPTTL') end
end
return 1`,
});
