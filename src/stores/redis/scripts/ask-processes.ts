import { defineScript } from "../define-script.js";

/** Notes in each index of reports until when processes are asked to count more: see `write-report`. Only ever prolongs it. */
export const askProcesses = defineScript({
  name: "ask-processes",
  args: ["askMs"],
  lua: `
for _, index in ipairs(KEYS) do
  local untilAt = now + askMs
  if untilAt > tonumber(redis.call('ZSCORE', index, '?') or 0) then redis.call('ZADD', index, untilAt, '?') end
  if redis.call('PTTL', index) < tonumber(askMs) then redis.call('PEXPIRE', index, askMs) end
end
return 1`,
});
