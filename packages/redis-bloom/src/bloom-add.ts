import { defineScript } from "graphql-cached/redis";

/**
 * Sets the bits of ids in the filter in use and in the one under construction, which are the keys.
 * A filter that does not exist is not created: it would report every other id as missing.
 * Idempotent: setting a bit twice changes nothing.
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
