import { defineScript } from "../define-script.js";

/** Whether ids may exist, `perId` bits each; nothing where there is no filter. There is one key, the filter. Changes nothing. */
export const bloomCheck = defineScript({
  name: "bloom-check",
  args: ["perId"],
  lua: `
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local out, size = {}, tonumber(perId)
for at = first, #ARGV, size do
  local isThere = 1
  for i = at, at + size - 1 do
    if redis.call('GETBIT', KEYS[1], ARGV[i]) == 0 then isThere = 0 break end
  end
  out[#out + 1] = isThere
end
return out`,
});
