import { defineScript } from "../define-script.js";

/**
 * Replaces the settings, the only key, if they are `expected`; empty: if there are none. Returns 1 if they are `content` then, and 0 if they
 * are others. Begins with PERSIST, as append-clock does, so that a full server takes it.
 * Idempotent: a second run finds `content`, or what has replaced it.
 */
export const replaceSettings = defineScript({
  name: "replace-settings",
  args: ["expected", "content"],
  lua: `
local current = redis.pcall('GET', KEYS[1])
if type(current) ~= 'string' then current = '' end
if current == content then return 1 end
if current ~= expected then return 0 end
redis.call('PERSIST', KEYS[1])
redis.call('SET', KEYS[1], content)
return 1`,
});
