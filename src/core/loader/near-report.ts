import type { Key } from "../keys/key.js";
import type { Policy } from "../policy/policy.js";
import type { Channel } from "../telemetry/channel.js";
import type { NearValue } from "../tier/near/near-entries.js";
import type { Reads } from "../tier/read/reads.js";
import type { RequestStates } from "./request-states.js";

/** Reports a hit of the near cache, for a field with its `info` or for a loader, and returns its value. */
export function reportNear(
  near: NearValue,
  key: Key,
  { coordinate, policy }: { readonly coordinate: string; readonly policy: Policy },
  {
    tier,
    channel,
    requestStates,
  }: { readonly tier: Reads; readonly channel: Channel; readonly requestStates: RequestStates },
  context: unknown,
  info?: unknown,
): unknown {
  // Read first: a listener that invalidates the entry takes the value from it.
  const value = near.decode === undefined ? near.value : near.decode();
  channel.served(coordinate, key, "hit");
  requestStates.observerOf(context)?.onRead(coordinate, tier.nearReport(near, policy), info, key);
  return value;
}
