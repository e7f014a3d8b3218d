import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { versionInfo } from "graphql";
import { beforeAll, describe, expect, inject, it } from "vitest";
import type { TickCosts } from "../support/hit-cost-process.js";

/** In this order: functions and promises for one key, functions and promises for each further key of a tick. */
type Limits = readonly [number, number, number, number];

/**
 * The most that a warm hit may cost. It is counted, not timed, so it is the same on every machine; a change
 * that makes the path of a hit longer fails here. Lower the limits when it has become shorter.
 */
const LIMITS: Readonly<Record<string, Limits>> = {
  "loader, memory": [117, 16, 57, 2],
  "field, memory": [123, 20, 72, 4],
  "loader, Redis": [129, 17, 57, 2],
  "field, Redis": [135, 21, 72, 4],
  "loader, near cache": [29, 4, 17, 1],
  "field, near cache": [23, 4, 23, 0],
};

/** graphql 17 itself makes more promises for an execution than graphql 16, and its signal says when it has ended. */
const MORE_ON_GRAPHQL_17 = { functions: 1, promises: 2 };
const NO_MORE = { functions: 0, promises: 0 };

let costs: Readonly<Record<string, TickCosts>> = {};

beforeAll(async () => {
  const program = fileURLToPath(new URL("../support/hit-cost-process.ts", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", "tsx", program], {
    env: { ...process.env, PORT: String(inject("redisStandalone").port) },
  });
  costs = JSON.parse(stdout) as typeof costs;
}, 120_000);

describe("a warm hit", () => {
  it.each(Object.entries(LIMITS))(
    "of a %s, enters no more functions and makes no more promises than its limits say",
    (name, limits) => {
      const more = versionInfo.major >= 17 && name.startsWith("field") ? MORE_ON_GRAPHQL_17 : NO_MORE;
      const { oneKey, hundredKeys } = costs[name] as TickCosts;
      const cost = [
        oneKey.functions - more.functions,
        oneKey.promises - more.promises,
        (hundredKeys.functions - oneKey.functions) / 99,
        (hundredKeys.promises - oneKey.promises) / 99,
      ];
      // Shows all four at once if one of them is too large.
      expect(cost.map((count, nth) => Math.max(count, limits[nth] as number))).toEqual(limits);
    },
  );
});
