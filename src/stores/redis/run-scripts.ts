import type { RedisClient } from "./client-port.js";
import { portOf } from "./known-clients.js";
import { type ScriptCall, sendScripts } from "./pipeline.js";

/**
 * Runs scripts in one round trip, on any client that `redisStore` takes. All keys must be in one slot. Resolves with one reply per call,
 * an Error for each that failed. Never rejects.
 */
export const runScripts = (client: RedisClient, calls: readonly ScriptCall[]): Promise<readonly unknown[]> =>
  sendScripts(portOf(client), calls);
