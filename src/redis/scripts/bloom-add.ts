import { defineScript } from "../define-script.js";

/**
 * Sets bits in the filter and in the one that is being built, where there are such. A filter that is not there is not begun: it would say no
 * to everything else. Idempotent.
 */
export const bloomAdd = defineScript({
  name: "bloom-add",
  args: [],
  lua: `
for _, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then
    for i = first, #ARGV do redis.call('SETBIT', key, ARGV[i], 1) end
  end
end
return 1`,
});
