import { defineScript } from "graphql-cached/redis";

/**
 * Ends the building of a filter. The keys are the filter under construction, its lock, and the
 * filter in use. It is replaced in one step if `step` is the last one of the build; if not, or if
 * that is empty, the filter under construction is deleted. Returns 1 if it was replaced.
 * Not idempotent: a second run finds no lock and returns 0.
 */
export const bloomSwap = defineScript({
  name: "bloom-swap",
  args: ["token", "step"],
  lua: `
local lock = redis.call('GET', KEYS[2])
if not lock or string.sub(lock, 1, #token) ~= token then return 0 end
redis.call('DEL', KEYS[2])
if lock ~= token .. step then redis.call('DEL', KEYS[1]) return 0 end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('RENAME', KEYS[1], KEYS[3])
redis.call('PERSIST', KEYS[3])
return 1`,
});
