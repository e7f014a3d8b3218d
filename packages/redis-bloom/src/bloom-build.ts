import { defineScript } from "graphql-cached/redis";

/**
 * Runs one step of building a filter. The keys are the filter under construction and its lock,
 * which is held under `token`. A `lastBit` of 0 or more starts the build: the script takes the lock
 * and creates an empty filter of full length. Every step sets the bits that follow and keeps both
 * keys for another `buildTtlMs`. Returns 0 if the lock or the filter is lost.
 * Idempotent, except for the start: its second run finds the lock taken and returns 0.
 */
export const bloomBuild = defineScript({
  name: "bloom-build",
  args: ["token", "buildTtlMs", "lastBit"],
  lua: `
if tonumber(lastBit) >= 0 then
  if not redis.call('SET', KEYS[2], token, 'NX', 'PX', buildTtlMs) then return 0 end
  redis.call('DEL', KEYS[1])
  redis.call('SETBIT', KEYS[1], lastBit, 0)
end
if redis.call('GET', KEYS[2]) ~= token or redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
for i = first, #ARGV do redis.call('SETBIT', KEYS[1], ARGV[i], 1) end
redis.call('PEXPIRE', KEYS[1], buildTtlMs)
redis.call('PEXPIRE', KEYS[2], buildTtlMs)
return 1`,
});
