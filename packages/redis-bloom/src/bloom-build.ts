import { defineScript } from "graphql-cached/redis";

/**
 * Runs one step of building a filter. The keys are the filter under construction and its lock,
 * which contains `token` and the number of the last step: a failover may have lost steps. Step 0
 * takes the lock and creates an empty filter, whose last bit is `lastBit`. Every step sets the bits
 * that follow and keeps both keys for another `buildTtlMs`. Returns 0 if the lock, a step or the
 * filter is lost.
 * Idempotent, except for the start: its second run finds the lock taken and returns 0.
 */
export const bloomBuild = defineScript({
  name: "bloom-build",
  args: ["token", "step", "buildTtlMs", "lastBit"],
  lua: `
if step == '0' then
  if not redis.call('SET', KEYS[2], token .. step, 'NX', 'PX', buildTtlMs) then return 0 end
  redis.call('DEL', KEYS[1])
  redis.call('SETBIT', KEYS[1], lastBit, 0)
end
local lock = redis.call('GET', KEYS[2])
if lock ~= token .. step - 1 and lock ~= token .. step then return 0 end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
for i = first, #ARGV do redis.call('SETBIT', KEYS[1], ARGV[i], 1) end
redis.call('PEXPIRE', KEYS[1], buildTtlMs)
redis.call('SET', KEYS[2], token .. step, 'PX', buildTtlMs)
return 1`,
});
