import { MAX_AHEAD_MICROS, MAX_POSITION } from "../../../core/store/clock-log.js";
import { defineScript } from "../define-script.js";

/**
 * Writes the head of the invalidation clock to copies that show an earlier position, one too far
 * ahead of the server's clock, or none. Returns for each what it shows then. Begins with PERSIST,
 * as append-clock does. Idempotent: a run at any later time finds this head or a later one.
 */
export const raiseClock = defineScript({
  name: "raise-clock",
  args: ["head"],
  lua: `
local replies = {}
for i, key in ipairs(KEYS) do
  local shown = redis.pcall('GET', key)
  local isHead = type(shown) == 'string' and #shown == 56 and string.sub(shown, 1, 8) == string.sub(head, 1, 8)
    and struct.unpack('<d', shown, 17) < ${MAX_POSITION} and struct.unpack('<d', shown, 17) <= micros + ${MAX_AHEAD_MICROS}
  if not isHead or struct.unpack('<d', shown, 17) < struct.unpack('<d', head, 17) then
    redis.call('PERSIST', key)
    redis.call('SET', key, head)
    shown = head
  end
  replies[i] = shown
end
return replies`,
});
