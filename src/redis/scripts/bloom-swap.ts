import { defineScript } from "../define-script.js";

/**
 * Ends the building of a filter: keys are the filter under construction, its lock, and the filter in use, whose place it takes in one step if
 * `isWhole` is 1. Answers 0 where the lock or the filter is lost. Not idempotent: a second run finds no lock.
 */
export const bloomSwap = defineScript({
  name: "bloom-swap",
  args: ["token", "isWhole"],
  lua: `
if redis.call('GET', KEYS[2]) ~= token then return 0 end
redis.call('DEL', KEYS[2])
if isWhole ~= '1' then return redis.call('DEL', KEYS[1]) end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('RENAME', KEYS[1], KEYS[3])
redis.call('PERSIST', KEYS[3])
return 1`,
});
