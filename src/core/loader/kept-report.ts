import type { Policy } from "../policy/policy.js";
import type { Channel } from "../telemetry/channel.js";
import type { Memory } from "../tier/memory/memory.js";
import type { KnownKey } from "../tier/request/known-key.js";
import { Served } from "../tier/request/served-report.js";
import { NO_TAGS } from "../tier/request/tags.js";
import type { Observer } from "./request-states.js";

/** Returns the value in memory, and reports it. `info`: undefined for a loader. */
export function takeKept(
  known: KnownKey,
  memory: Memory,
  policy: Policy,
  observer: Observer | undefined,
  info: unknown,
  channel: Channel,
): unknown {
  const { key } = known;
  // Read first: a listener that invalidates the entry takes the value from it.
  const value = memory.take(known);
  channel.served(key.coordinate, key, "hit");
  if (observer === undefined) return value;
  const { kept } = known;
  const now = memory.now();
  const { freshUntilAt = now, grantedAt = now, hint } = kept ?? {};
  if (hint === undefined && observer.onFresh !== undefined)
    observer.onFresh(freshUntilAt - Math.max(now, grantedAt), now - grantedAt, policy.scope === "PRIVATE");
  else {
    const report = new Served({ policy, tags: NO_TAGS }, "hit", freshUntilAt - now, now - grantedAt, kept);
    observer.onRead(key.coordinate, report, info, key);
  }
  return value;
}
