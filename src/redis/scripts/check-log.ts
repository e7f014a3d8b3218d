import { defineScript, INVALIDATION_LOG } from "../define-script.js";

/**
 * Returns `record` if the invalidation log has `record` at the time `at`, has dropped nothing later than
 * that, and contains none of the tags passed as values with a later time; otherwise 0. The only key
 * is the log. Read-only, so running it twice is safe.
 */
export const checkLog = defineScript({
  name: "check-log",
  args: ["record", "at"],
  lua: `${INVALIDATION_LOG}
local known = redis.call('ZSCORE', KEYS[1], record)
if not known or tonumber(known) ~= tonumber(at) then return 0 end
local forgottenAt = redis.call('ZSCORE', KEYS[1], FORGOTTEN)
if forgottenAt and tonumber(forgottenAt) > tonumber(at) then return 0 end
for i = first, #ARGV do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and tonumber(score) > tonumber(at) then return 0 end
end
return record`,
});
