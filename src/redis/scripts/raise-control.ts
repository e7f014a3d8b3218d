import { CONTROL_RECORD, defineScript } from "../define-script.js";

/**
 * Writes a version of the control record to copies that have an earlier one or none. Two keys per
 * copy. A copy with this version or a later one stays, but its version is written again if it is
 * missing.
 * Idempotent: a run at any later time finds this version or a later one. Returns `version`.
 */
export const raiseControl = defineScript({
  name: "raise-control",
  args: ["version", "content"],
  lua: `${CONTROL_RECORD}
for i = 1, #KEYS, 2 do
  local current, shown = readCopy(i)
  if not current or struct.unpack('>I8', current) < struct.unpack('>I8', version) then writeCopy(i, version, content)
  elseif shown ~= current then redis.call('SET', KEYS[i], current) end
end
return version`,
});
