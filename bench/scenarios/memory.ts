import { graphqlCached } from "../contenders/graphql-cached.js";
import { FRESH, type Scenario, spreads, withFleets } from "../scenario.js";

const WARM_UP_KEYS = 5_000;

/** The heap retained after one process has read that many distinct keys. Only graphql-cached has a target, and only it is measured. */
export const memory: Scenario = {
  isLong: true,
  name: "memory",
  title: "heap retained after 100,000 keys (20,000 in a quick run)",
  measures: [{ name: "heap", unit: "MB", better: "less", target: { bound: 5 } }],
  run: async (ctx) => {
    const options = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false }, execArgv: ["--expose-gc"] };
    const bytes = await withFleets(ctx, [graphqlCached], options, async (fleets) => {
      const [fleet] = fleets.values();
      await fleet?.send(0, { do: "heap", keys: WARM_UP_KEYS });
      return (await fleet?.send(0, { do: "heap", keys: ctx.ids(20_000, 100_000) }))?.heapBytes ?? 0;
    });
    await ctx.control.flushall();
    const { name, kind } = graphqlCached;
    return [{ contender: name, kind, values: spreads([{ heap: bytes / 2 ** 20 }]) }];
  },
};
