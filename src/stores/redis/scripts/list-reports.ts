import { defineScript } from "../define-script.js";

/**
 * Returns for each index of reports the time, and the processes with the times of their last reports, the last
 * ones first. The member `?` is among them: see `write-report`.
 */
export const listReports = defineScript({
  name: "list-reports",
  args: ["keptMs", "maxReporting"],
  lua: `
local lists = {}
for i, index in ipairs(KEYS) do
  lists[i] = redis.call('ZREVRANGEBYSCORE', index, '+inf', now - keptMs, 'WITHSCORES', 'LIMIT', 0, maxReporting + 1)
  table.insert(lists[i], 1, tostring(now))
end
return lists`,
});
