import { defineScript } from "../define-script.js";

/**
 * One step of building a filter: keys are the filter under construction and its lock, which only the holder of `token` passes.
 * Begins with `lastBit` of 0 or more, which makes the filter anew, empty and whole; sets the bits that follow. Answers 0 where the lock or the
 * filter is lost. Both live for `keptMs` more. Idempotent, but for a beginning.
 */
export const bloomBuild = defineScript({
  name: "bloom-build",
  args: ["token", "keptMs", "lastBit"],
  lua: `
if tonumber(lastBit) >= 0 then
  if not redis.call('SET', KEYS[2], token, 'NX', 'PX', keptMs) then return 0 end
  redis.call('DEL', KEYS[1])
  redis.call('SETBIT', KEYS[1], lastBit, 0)
end
if redis.call('GET', KEYS[2]) ~= token or redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
for i = first, #ARGV do redis.call('SETBIT', KEYS[1], ARGV[i], 1) end
redis.call('PEXPIRE', KEYS[1], keptMs)
redis.call('PEXPIRE', KEYS[2], keptMs)
return 1`,
});
