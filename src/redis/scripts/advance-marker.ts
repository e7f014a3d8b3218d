import { defineScript } from "../define-script.js";

/**
 * Sets a marker to `nth` if it is at `nth - 1`, for `markerMs`, and returns where it is. The only key
 * is the marker. A marker at `nth` proves that the server that holds it now has carried out
 * everything that was sent before it. On a full server it may stay behind, which proves nothing.
 * Idempotent: a marker that is at `nth` or beyond stays.
 */
export const advanceMarker = defineScript({
  name: "advance-marker",
  args: ["nth", "markerMs"],
  lua: `
local at = tonumber(redis.call('GET', KEYS[1]) or 0)
if at == nth - 1 and not redis.pcall('SET', KEYS[1], nth, 'PX', markerMs).err then return tonumber(nth) end
return at`,
});
