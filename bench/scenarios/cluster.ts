import { asyncCacheDedupe } from "../contenders/async-cache-dedupe.js";
import { clusterBaseline } from "../contenders/baseline.js";
import { graphqlCached } from "../contenders/graphql-cached.js";
import { layeredLoader } from "../contenders/layered-loader.js";
import { clusterReader } from "../limits/cluster-reader.js";
import { FRESH, fillInTurns, interleave, type Scenario, withFleets } from "../scenario.js";

const BATCH = "100 keys, speed vs DataLoader + GETs";
const SINGLE = "one key, speed vs DataLoader + GETs";

/** Warm keys on a Redis Cluster of three masters, for contenders that work there. */
export const cluster: Scenario = {
  isLong: true,
  name: "cluster",
  title: "100 warm keys in one tick, Cluster of three nodes",
  measures: [
    { name: BATCH, unit: "x", better: "more" },
    { name: SINGLE, unit: "x", better: "more" },
    { name: "time per tick", unit: "us", better: "less" },
  ],
  charts: [{ kind: "bars", measure: BATCH }],
  run: async (ctx) => {
    const nodes = await ctx.lab.cluster();
    try {
      const contenders = [graphqlCached, clusterBaseline, clusterReader, asyncCacheDedupe, layeredLoader];
      const more = { clusterPorts: nodes.map(({ port }) => port) };
      const options = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false }, more };
      return await withFleets(ctx, contenders, options, async (fleets) => {
        const space = { name: "warm", size: ctx.ids(5_000, 20_000) };
        await fillInTurns(fleets, space, 100);
        const command = (keys: number, times: number) =>
          ({ do: "cycle", space, times, requests: 1, keys, isSame: true }) as const;
        const [batch, single] = [command(100, 40), command(1, 300)];
        for (const fleet of fleets.values())
          for (let time = 0; time < 3; time++) for (const one of [batch, single]) await fleet.send(0, one);
        return interleave(
          fleets,
          ctx.rounds(3, 20),
          async (fleet) => ({
            batch: (await fleet.send(0, batch)).elapsedMs,
            single: (await fleet.send(0, single)).elapsedMs,
          }),
          (samples, name) => {
            const own = samples.get(name) ?? {};
            const base = samples.get(clusterBaseline.name) ?? {};
            return {
              [BATCH]: (base.batch ?? 0) / (own.batch ?? 1),
              [SINGLE]: (base.single ?? 0) / (own.single ?? 1),
              "time per tick": ((own.batch ?? 0) * 1e3) / batch.times,
            };
          },
        );
      });
    } finally {
      for (const node of nodes) await node.kill();
    }
  },
};
