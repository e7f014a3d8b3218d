import { defineScript } from "graphql-cached/redis";

/**
 * Ends the building of a filter. The keys are the filter under construction, its lock, and the
 * filter in use, which is replaced in one step if `isComplete` is 1; otherwise the filter under
 * construction is deleted. Returns 0 if the lock or the filter under construction is lost.
 * Not idempotent: a second run finds no lock and returns 0.
 */
export const bloomSwap = defineScript({
  name: "bloom-swap",
  args: ["token", "isComplete"],
  lua: `
if redis.call('GET', KEYS[2]) ~= token then return 0 end
redis.call('DEL', KEYS[2])
if isComplete ~= '1' then return redis.call('DEL', KEYS[1]) end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('RENAME', KEYS[1], KEYS[3])
redis.call('PERSIST', KEYS[3])
return 1`,
});
