import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, inject, it } from "vitest";

/**
 * The most that may outlive a warm hit, in bytes per key. A loader's context has the values that it has read in a WeakMap,
 * which keeps them until the next full collection: about 840. The execution of a field refers to none: about 200, and
 * 2,500 if it did. graphql 17 keeps the responses of executions that long: 800.
 */
const LIMITS = { loader: 1_200, field: 1_500 };

/** With the V8 of later versions, what survives differs from run to run: 300 to 1,200 bytes on Node 26. */
const isSteady = Number.parseInt(process.versions.node, 10) <= 22;

let survivors: Readonly<Record<"loader" | "field", number>>;

beforeAll(async () => {
  if (!isSteady) return;
  const program = fileURLToPath(new URL("../support/survivors-process.ts", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", "tsx", program], {
    env: { ...process.env, PORT: String(inject("redisStandalone").port) },
  });
  survivors = JSON.parse(stdout) as typeof survivors;
}, 240_000);

const describeIfSteady = describe.runIf(isSteady); // newer versions of V8 free it at times of their own

describeIfSteady("what a warm hit on Redis makes", () => {
  it.each(["loader", "field"] as const)(
    "does not outlive minor garbage collections beyond its limit: of a %s",
    (reader) => {
      expect(survivors[reader]).toBeLessThan(LIMITS[reader]);
    },
  );
});
