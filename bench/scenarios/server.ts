import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { graphqlCached } from "../contenders/graphql-cached.js";
import { type Context, type Row, type Sample, type Scenario, spreads } from "../scenario.js";

const WORK = fileURLToPath(new URL("../dist/bench/server-work.js", import.meta.url));

async function measureSamples(name: string, argument: number, start = 0): Promise<readonly Sample[]> {
  const env = { ...process.env, NODE_ENV: "production" };
  const { stdout } = await promisify(execFile)(process.execPath, [WORK, name, String(argument), String(start)], {
    env,
  });
  return JSON.parse(stdout) as Sample[];
}

/** Returns a row with the spread of a value over all samples. */
const rowOf = (contender: string, samples: readonly Sample[], values: (sample: Sample) => Sample): Row => ({
  contender,
  kind: contender === graphqlCached.name ? "ours" : "none",
  values: spreads(samples.map(values)),
});

/** The time of applyCached for GitHub's public schema (1,636 types, `@cached` on each field that returns objects), relative to building it. */
export const githubSchema: Scenario = {
  name: "github-schema",
  title: "GitHub's schema, every object field @cached",
  measures: [
    { name: "time vs buildASTSchema", unit: "x", better: "less", target: { bound: 2 } },
    { name: "time", unit: "ms", better: "less" },
  ],
  run: async (ctx: Context) => {
    const samples = await measureSamples("github-schema", ctx.rounds(3, 20));
    const row = (contender: string, part: string): Row =>
      rowOf(contender, samples, ({ build = 1, [part]: time = 0 }) => ({
        "time vs buildASTSchema": time / build,
        time,
      }));
    return [row(graphqlCached.name, "apply"), row("buildASTSchema", "build"), row("makeExecutableSchema", "make")];
  },
};

/** The speed of a query of uncached fields on a server that caches other fields, relative to a server without the cache. */
export const noCachedField: Scenario = {
  name: "no-cached-field",
  title: "server with the library and no cached field in the query, 500 fields",
  measures: [
    { name: "speed on graphql-js", unit: "x", better: "more", target: { bound: 0.99 } },
    { name: "speed on Apollo", unit: "x", better: "more", target: { bound: 0.99 } },
    { name: "graphql-js", unit: "us", better: "less" },
    { name: "Apollo", unit: "us", better: "less" },
  ],
  run: async (ctx: Context) => {
    // The same server can be 2 % slower than its twin in one process, and faster in another.
    const samples: Sample[] = [];
    for (let start = 0; start < ctx.rounds(2, 16); start++)
      samples.push(...(await measureSamples("no-cached-field", ctx.rounds(16, 64), start)));
    const row = (contender: string, server: string): Row =>
      rowOf(contender, samples, (sample) => {
        const time = (runtime: string, on = server): number => sample[`${on} ${runtime}`] ?? 0;
        return {
          "speed on graphql-js": time("graphql-js", "plain") / time("graphql-js"),
          "speed on Apollo": time("Apollo", "plain") / time("Apollo"),
          "graphql-js": time("graphql-js") * 1e3,
          Apollo: time("Apollo") * 1e3,
        };
      });
    // graphql-js has no plugins.
    const idle = rowOf("bare: a plugin that does nothing", samples, (sample) => {
      const { "plain Apollo": plain = 0, "idle Apollo": time = 0 } = sample;
      return { "speed on Apollo": plain / time, Apollo: time * 1e3 };
    });
    return [
      row(graphqlCached.name, "ours"),
      row("no cache", "plain"),
      row("no cache, repeated", "again"),
      { ...idle, kind: "limit" },
    ];
  },
};

/** The bytes of an entry with a hundred entity tags in Redis, relative to the JSON of its value. */
export const entityEntry: Scenario = {
  name: "entity-entry",
  title: "entry with 100 entity tags",
  measures: [
    { name: "bytes vs JSON", unit: "x", better: "less", target: { bound: 2.5 } },
    { name: "bytes", unit: "B", better: "less" },
  ],
  run: async ({ redis }: Context) => {
    const samples = await measureSamples("entity-entry", redis.port);
    const row = (contender: string, part: string): Row =>
      rowOf(contender, samples, ({ json = 1, [part]: bytes = 0 }) => ({ "bytes vs JSON": bytes / json, bytes }));
    return [row(graphqlCached.name, "entry"), row("JSON", "json")];
  },
};
