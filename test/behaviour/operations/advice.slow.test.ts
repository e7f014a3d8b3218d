import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import {
  applyCached,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
  memoryStore,
} from "graphql-cached";
import { FakeClock, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import type { CacheAdvice } from "../../../src/generated/schema.js";

const HOUR_MS = 3_600_000;
const LOAD_MS = 20;

/** Numbers from 0 to 1 that are the same in every run (a linear congruential generator). */
function drawing(): () => number {
  let state = 42;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

/** A field, and how it is read and changes. */
interface Planted {
  readonly policy: string;
  readonly keys: number;
  readonly readsPerHour: number;
  readonly hours: number;
  /** After how long each value changes. Undefined: never. */
  readonly changesEveryMs?: number;
  readonly mode?: "observe";
  readonly maxReads?: number;
}

/** Reads a field at random times for hours of a clock that the test moves. Returns what the advisor says, and the loads. */
async function simulate({ policy, keys, readsPerHour, hours, changesEveryMs, mode, maxReads }: Planted) {
  const clock = new FakeClock();
  const random = drawing();
  const cache = createCache<object>({
    store: memoryStore({ clock }),
    defaults: { jitter: 0, earlyRefresh: 0 },
    sampling: mode === "observe" ? {} : { sampleRatio: 1 },
    initialMode: mode ?? "on",
    testing: { clock, random },
    inspection: { reportEveryMs: 60_000 },
    logger: { info: () => undefined, warn: () => undefined },
  });
  let calls = 0;
  const load = async (id: string): Promise<string> => {
    calls++;
    const version = changesEveryMs === undefined ? 0 : Math.floor(clock.now() / changesEveryMs);
    await new Promise<void>((resolve) => clock.after(LOAD_MS, resolve));
    return `${id} ${version}`;
  };
  const typeDefs = `type Query { price(id: ID!): String @cached(${policy}) }`;
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, inspectionTypeDefs, typeDefs],
      resolvers: [
        { Query: { price: (_: unknown, { id }: { id: string }) => load(id) } },
        inspectionResolvers(cache, { allow: () => true }),
      ],
    }),
    cache,
  );
  if (mode !== undefined) await cache.setMode(mode);
  const endsAt = clock.now() + hours * HOUR_MS;
  let reads = 0;
  while (clock.now() < endsAt && reads < (maxReads ?? Number.POSITIVE_INFINITY)) {
    await clock.advance((-Math.log(1 - random()) * HOUR_MS) / readsPerHour);
    const id = String(Math.floor(random() * keys));
    const answer = graphql({ schema, source: `{ price(id: "${id}") }`, contextValue: {} });
    await clock.advance(LOAD_MS);
    expect((await answer).errors).toBeUndefined();
    reads++;
  }
  const source = `{ cacheInspection {
    advice { coordinate kind reason diff comparisons changesPerHour maxChangesPerHour
      current { maxAge loadsPerSecond staleRatio } proposed { maxAge staleWhileRevalidate loadsPerSecond staleRatio maxStaleRatio }
      saving { loadsPerSecond loadMsPerSecond } }
    fields { stats { loads } sampled { samples staleRatio } }
  } }`;
  const { data, errors } = await graphql({ schema, source, contextValue: {} });
  expect(errors).toBeUndefined();
  const { advice, fields } = (data as { cacheInspection: Answer }).cacheInspection;
  const loads = fields[0]?.stats.loads ?? 0;
  await settle();
  await cache.close();
  return {
    advice: advice[0] as CacheAdvice,
    loadsPerSecond: (mode === "observe" ? calls : loads) / (hours * 3600),
    sampled: fields[0]?.sampled,
  };
}

interface Answer {
  readonly advice: readonly CacheAdvice[];
  readonly fields: readonly {
    readonly stats: { readonly loads: number };
    readonly sampled: { readonly samples: number; readonly staleRatio: number } | null;
  }[];
}

/** Returns the policy that is proposed. */
function proposedPolicy({ proposed }: CacheAdvice): string {
  expect(proposed).not.toBeNull();
  const { maxAge = 0, staleWhileRevalidate = 0 } = proposed ?? {};
  return `maxAge: ${maxAge}, staleWhileRevalidate: ${staleWhileRevalidate}`;
}

describe("the advice for a field of known truth", () => {
  it("is a maxAge of an hour or more if it never changes, and saves what it says", async () => {
    const field: Planted = { policy: "maxAge: 300", keys: 20, readsPerHour: 1_000, hours: 3 };
    const { advice, loadsPerSecond, sampled } = await simulate(field);
    expect(advice.kind).toBe("LONGER");
    expect(advice.proposed?.maxAge).toBeGreaterThanOrEqual(3600);
    expect(advice.diff).toBe(
      [
        "  type Query {",
        "-   price @cached(maxAge: 300)",
        `+   price @cached(maxAge: ${advice.proposed?.maxAge})`,
      ].join("\n"),
    );
    expect([advice.current.staleRatio, sampled?.staleRatio]).toEqual([0, 0]);
    const after = await simulate({ ...field, policy: proposedPolicy(advice) });
    const saved = loadsPerSecond - after.loadsPerSecond;
    expect(Math.abs(saved / (advice.saving?.loadsPerSecond ?? 0) - 1)).toBeLessThan(0.2);
  }, 60_000);

  it("is a maxAge of at most a minute if it changes every minute, and as few reads are outdated as it says", async () => {
    const field: Planted = { policy: "maxAge: 300", keys: 4, readsPerHour: 1_000, hours: 1, changesEveryMs: 60_000 };
    const { advice, loadsPerSecond, sampled } = await simulate(field);
    expect(advice.kind).toBe("SHORTER");
    // Values that change on the minute are not quite those of the model, which change at random.
    expect(Math.abs((advice.current.staleRatio ?? 0) - (sampled?.staleRatio ?? 0))).toBeLessThan(0.1);
    expect(advice.proposed?.maxAge).toBeLessThanOrEqual(60);
    const after = await simulate({ ...field, policy: proposedPolicy(advice) });
    const saved = loadsPerSecond - after.loadsPerSecond;
    expect(Math.abs(saved / (advice.saving?.loadsPerSecond ?? 0) - 1)).toBeLessThan(0.2);
    expect(after.sampled?.staleRatio).toBeLessThan(0.1);
  }, 60_000);

  it("is none if it was read twice", async () => {
    const { advice } = await simulate({ policy: "maxAge: 300", keys: 1, readsPerHour: 1_000, hours: 1, maxReads: 2 });
    expect(advice).toMatchObject({ kind: "NONE", proposed: null, diff: null, saving: null });
    expect(advice.reason).toBe("Too few reads: 100 say something, and there were 2.");
  });

  it("is what turning it on would save if it is only observed", async () => {
    const field: Planted = { policy: "maxAge: 300", keys: 20, readsPerHour: 1_000, hours: 1.5, mode: "observe" };
    const { advice, loadsPerSecond } = await simulate(field);
    expect(advice.reason).toContain("It is only observed: turn it on with this policy.");
    const { mode: _, ...on } = field;
    const after = await simulate({ ...on, policy: proposedPolicy(advice) });
    const saved = loadsPerSecond - after.loadsPerSecond;
    expect(Math.abs(saved / (advice.saving?.loadsPerSecond ?? 0) - 1)).toBeLessThan(0.2);
  }, 60_000);
});
