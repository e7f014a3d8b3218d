import { CONTROL_RECORD, defineScript } from "../define-script.js";

/**
 * Replaces the first copy of the control record if its version is `expected` (empty: if there is no
 * record). Returns the new version, or an empty string if the record has another version. The keys
 * are those of the copy.
 *
 * Idempotent per `callerId`: a client that reconnects before the reply arrives sends the same call
 * again and gets the version that it has made. A call that expected no record, and runs again after
 * the record was lost, makes another version, so nothing that an earlier version stood for returns.
 * Begins with PERSIST, as append-clock does, so that a full server takes it.
 */
export const replaceControl = defineScript({
  name: "replace-control",
  args: ["expected", "callerId", "content"],
  lua: `${CONTROL_RECORD}
local current, shown = readCopy(1)
if current and string.sub(current, 9) == callerId then return current end
if (current or '') ~= expected then return '' end
local at = micros
for _, known in pairs({ current or false, shown or false }) do
  if known then at = math.max(at, struct.unpack('>I8', known) + 1) end
end
writeCopy(1, struct.pack('>I8', at) .. callerId, content)
return struct.pack('>I8', at) .. callerId`,
});
