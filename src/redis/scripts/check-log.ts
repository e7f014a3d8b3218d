import { defineScript, LOG } from "../define-script.js";

/** Answers 1 if the record is still the one of `logId` and holds none of the tags given as values with a later time than `at`. Changes nothing. */
export const checkLog = defineScript({
  name: "check-log",
  args: ["logId", "at"],
  lua: `${LOG}
local found = record(KEYS[1])
if found ~= logId then return 0 end
for i = first, #ARGV do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and tonumber(score) > tonumber(at) then return 0 end
end
return 1`,
});
