import { defineScript } from "graphql-cached/redis";

/**
 * Returns 1 for each id that may exist and 0 for each that cannot, from `bitsPerId` bit offsets per
 * id; nil if there is no filter. The only key is the filter. Read-only, so running it twice is
 * safe.
 */
export const bloomCheck = defineScript({
  name: "bloom-check",
  args: ["bitsPerId"],
  lua: `
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local replies, size = {}, tonumber(bitsPerId)
for at = first, #ARGV, size do
  local mayExist = 1
  for i = at, at + size - 1 do
    if redis.call('GETBIT', KEYS[1], ARGV[i]) == 0 then mayExist = 0 break end
  end
  replies[#replies + 1] = mayExist
end
return replies`,
});
