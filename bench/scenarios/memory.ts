import { graphqlCached } from "../contenders/graphql-cached.js";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { allBut, FRESH, type Row, type Scenario, spreads, withFleets } from "../scenario.js";

const KEYS = 100_000;
const WARM_UP_KEYS = 5_000;

/** The heap retained after one process has read 100,000 distinct keys. Quick runs measure graphql-cached only. */
export const memory: Scenario = {
  name: "memory",
  title: "heap retained after 100,000 keys",
  measures: [{ name: "heap", unit: "MB", better: "less", target: { bound: 5 } }],
  run: async (ctx) => {
    const options = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false }, execArgv: ["--expose-gc"] };
    const rows: Row[] = [];
    const contenders = ctx.isQuick ? [graphqlCached] : allBut(layeredLoaderMany.name);
    for (const contender of contenders) {
      await ctx.control.flushall();
      const bytes = await withFleets(ctx, [contender], options, async (fleets) => {
        const [fleet] = fleets.values();
        await fleet?.send(0, { do: "heap", keys: WARM_UP_KEYS });
        return (await fleet?.send(0, { do: "heap", keys: KEYS }))?.heapBytes ?? 0;
      });
      rows.push({ contender: contender.name, kind: contender.kind, values: spreads([{ heap: bytes / 2 ** 20 }]) });
    }
    await ctx.control.flushall();
    return rows;
  },
};
