import type { Fleet } from "../fleet.js";
import {
  cachedNear,
  cachedRedis,
  dataLoaderOnly,
  RESPONSE_CONTENDERS,
  responsesNear,
  responsesRedis,
} from "../page/contenders.js";
import type { PageCommands, VisitReport } from "../page/process.js";
import {
  interleave,
  type Measure,
  type Row,
  rowsOf,
  type Sample,
  type Samples,
  type Scenario,
  withFleets,
} from "../scenario.js";
import type { ServerName } from "../servers/process.js";
import type { VariantName } from "../servers/variants.js";
import { PAGE } from "./page.js";
import { measureServers, OVERLAP, type ServerLoad, speedOf } from "./server-rounds.js";

const OURS = ["graphql-cached, responses, Redis", "graphql-cached, responses, near cache"] as const;
const TEXTS = ["graphql-cached, responses as text, Redis", "graphql-cached, responses as text, near cache"] as const;
const FIELDS = ["graphql-cached, Redis", "graphql-cached, near cache"] as const;
const MEMORY = "Apollo's response cache, memory";
const REDIS = "Apollo's response cache, Redis";
/** What is measured is the text that a client gets. */
type TextServer = Exclude<ServerName, "Apollo">;
const VARIANTS_OF: Readonly<Record<TextServer, readonly VariantName[]>> = {
  "Apollo, as text": ["no cache", ...FIELDS, ...OURS, ...TEXTS, MEMORY, REDIS],
  Yoga: ["no cache", ...FIELDS, ...OURS, "envelop's response cache, memory"],
};

/** A page of a hundred objects follows another. Soon all of them are stored. */
const STEP = 100;

const LOADS: readonly ServerLoad[] = [
  { name: "Apollo, same queries, 1 caller", server: "Apollo, as text", callers: 1, step: STEP },
  { name: "Apollo, same queries, 8 callers", server: "Apollo, as text", callers: 8, step: STEP },
  { name: "Apollo, varying queries, 8 callers", server: "Apollo, as text", callers: 8, step: OVERLAP },
  { name: "Yoga, same queries, 1 caller", server: "Yoga", callers: 1, step: STEP },
  { name: "Yoga, same queries, 8 callers", server: "Yoga", callers: 8, step: STEP },
];
const OF_APOLLO = (callers: number): string =>
  `of Apollo's of the same kind, ${callers} caller${callers === 1 ? "" : "s"}`;

const WARM_UP_REQUESTS = 400;

/** The same page again and again: what a hit of a whole response costs, beside other response caches and fields alone. */
export const responses: Scenario = {
  name: "responses",
  title: "whole responses, pages of 100 objects with a cached field each, source without delay",
  measures: [
    ...LOADS.map(({ name }): Measure => ({ name, unit: "x", better: "more" })),
    {
      name: OF_APOLLO(1),
      unit: "x",
      better: "more",
      targets: [
        { contender: TEXTS[0], bound: 0.95 },
        { contender: TEXTS[1], bound: 1.5 },
      ],
    },
    {
      name: OF_APOLLO(8),
      unit: "x",
      better: "more",
      targets: [
        { contender: TEXTS[0], bound: 1.2 },
        { contender: TEXTS[1], bound: 1.5 },
      ],
    },
  ],
  run: (ctx): Promise<readonly Row[]> =>
    measureServers(ctx, {
      loads: LOADS,
      variantsOf: VARIANTS_OF,
      starts: ctx.count(1, 2),
      warmUpRequests: WARM_UP_REQUESTS,
      relate: ({ name: load, server, callers, step }, name, served) => ({
        [load]: speedOf(served, name, "no cache"),
        ...(server !== "Yoga" && step === STEP
          ? { [OF_APOLLO(callers)]: speedOf(served, name, name.includes("near") ? MEMORY : REDIS) }
          : {}),
      }),
    }),
};

const OF_FIELDS = "of fields alone";
const PAGE_REQUESTS = 2_000;
const PAGE_WARM_UP = 5_000;

/** The page of the shop, with 2 % mutations: what responses add to fields when what is on the page changes. */
export const responsesMixed: Scenario = {
  name: "responses-mixed",
  title: "page with 2 % mutations, 32 callers, source 3 ms, whole responses beside fields alone",
  measures: [
    {
      name: OF_FIELDS,
      unit: "x",
      better: "more",
      targets: [
        { contender: responsesRedis.name, bound: 1 },
        { contender: responsesNear.name, bound: 1 },
      ],
    },
    { name: "of no cache", unit: "x", better: "more" },
    { name: "requests/s", unit: "", better: "more" },
    { name: "CPU a request", unit: "us", better: "less" },
    { name: "source calls a request", unit: "", better: "less" },
    {
      name: "stale values",
      unit: "%",
      better: "less",
      targets: [responsesRedis, responsesNear].map(({ name }) => ({ contender: name, bound: 0 })),
    },
  ],
  run: async (ctx): Promise<readonly Row[]> => {
    const taken: Samples = new Map();
    const names = RESPONSE_CONTENDERS.map(({ name }) => name);
    for (let start = 0; start < ctx.count(1, 2); start++)
      await withFleets(ctx, names, { program: PAGE, setup: {} }, async (fleets) => {
        const seed = ctx.seed + 1_000 * start;
        const visit = (name: string, requests: number, round: number): Promise<VisitReport> =>
          (fleets.get(name) as Fleet<PageCommands>).send(0, "visit", {
            callers: 32,
            callMs: 3,
            requests,
            seed: seed + round,
          });
        for (const name of names) await visit(name, PAGE_WARM_UP, 0);
        const measure = async (name: string, round: number): Promise<Sample> => {
          const { waits, elapsedMs, cpuMs, sourceCalls, values, staleValues } = await visit(
            name,
            PAGE_REQUESTS,
            round + 1,
          );
          return {
            "requests/s": (waits.length / elapsedMs) * 1e3,
            "CPU a request": (cpuMs / waits.length) * 1e3,
            "source calls a request": sourceCalls / waits.length,
            "stale values": (staleValues / Math.max(1, values)) * 100,
          };
        };
        const relate = (samples: ReadonlyMap<string, Sample>, name: string): Sample => {
          const speed = (one: string): number => samples.get(one)?.["requests/s"] ?? Number.NaN;
          const fields = name.includes("near") ? cachedNear.name : cachedRedis.name;
          return {
            ...samples.get(name),
            [OF_FIELDS]: speed(name) / speed(fields),
            "of no cache": speed(name) / speed(dataLoaderOnly.name),
          };
        };
        await interleave(names, ctx.count(3, 5), measure, relate, taken);
      });
    return rowsOf(taken);
  },
};
