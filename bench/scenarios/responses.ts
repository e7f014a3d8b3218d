import type { Fleet, Program } from "../fleet.js";
import { dataLoaderOnly } from "../page/contender.js";
import { RESPONSE_CONTENDERS } from "../page/contenders.js";
import { cached, cachedNoMemory, responses as cachedResponses, responsesNoMemory } from "../page/graphql-cached.js";
import { mistakeMeasures, withMistakes } from "../page/mistakes.js";
import type { PageCommands, VisitReport } from "../page/process.js";
import { responseCache } from "../page/response-cache.js";
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
import type { ServerCommands, ServerName, ServerSetup } from "../servers/process.js";
import type { VariantName } from "../servers/variants.js";
import { addReport, PAGE, type Reports, WARM_UP, warmUp } from "./page.js";
import { measureServers, OVERLAP, type ServerLoad, speedOf } from "./server-rounds.js";

const FIELDS = ["graphql-cached", "graphql-cached, no memory"] as const;
const OURS = ["graphql-cached, responses", "graphql-cached, responses, no memory"] as const;
const TEXTS = ["graphql-cached, responses as text", "graphql-cached, responses as text, no memory"] as const;
const MEMORY = "Apollo's response cache, memory";
const REDIS = "Apollo's response cache, Redis";
/** What is measured is the text that a client gets. */
type TextServer = "Apollo, as text" | "Yoga";
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
/** What a variant is compared with. Default: that on Redis. */
const BESIDE: Partial<Record<VariantName, VariantName>> = Object.fromEntries(
  [FIELDS[0], OURS[0], TEXTS[0]].map((name) => [name, MEMORY]),
);
const OF_APOLLO = (callers: number): string =>
  `of Apollo's of the same kind, ${callers} caller${callers === 1 ? "" : "s"}`;

/** A hit is an answer of a server that runs for long, whose code is compiled. */
const WARM_UP_REQUESTS = 1_600;
const REQUESTS = 400;

/** The same page again and again: what a hit of a whole response costs, beside other response caches and fields alone. */
export const responses: Scenario = {
  name: "responses",
  title: "whole responses, pages of 100 objects with a cached field each, source without delay",
  measures: [
    ...LOADS.map(({ name }): Measure => ({ name, unit: "x", better: "more" })),
    ...[1, 8].map(
      (callers): Measure => ({
        name: OF_APOLLO(callers),
        unit: "x",
        better: "more",
        targets: [
          { contender: TEXTS[0], bound: 3 },
          { contender: TEXTS[1], bound: 1 },
        ],
      }),
    ),
  ],
  run: (ctx): Promise<readonly Row[]> =>
    measureServers(ctx, {
      loads: LOADS,
      variantsOf: VARIANTS_OF,
      starts: ctx.count(1, 2),
      warmUpRequests: WARM_UP_REQUESTS,
      requests: REQUESTS,
      relate: ({ name: load, server, callers, step }, name, served) => ({
        [load]: speedOf(served, name, "no cache"),
        ...(server !== "Yoga" && step === STEP
          ? { [OF_APOLLO(callers)]: speedOf(served, name, BESIDE[name] ?? REDIS) }
          : {}),
      }),
    }),
};

const OF_FULL = (callers: number): string => `CPU of a full answer, ${callers} caller${callers === 1 ? "" : "s"}`;

/** Clients that have a response already, and ask with its entity tag. */
export const responsesEtag: Scenario = {
  name: "responses-etag",
  title:
    "hits of GET requests of a client that has the response, beside those of one that has not; Apollo Server, pages of 100 objects",
  measures: [1, 8].map(
    (callers): Measure => ({
      name: OF_FULL(callers),
      unit: "x",
      better: "less",
      targets: OURS.map((contender) => ({ contender, bound: 0.7 })),
    }),
  ),
  run: async (ctx): Promise<readonly Row[]> => {
    const program: Program<ServerSetup, ServerCommands> = { module: "servers/process" };
    return withFleets(ctx, OURS, { program, setup: {} }, async (fleets) => {
      const cpuOf = async (name: string, server: ServerName, callers: number, requests: number): Promise<number> =>
        (await (fleets.get(name) as Fleet<ServerCommands>).send(0, "serve", { server, callers, requests, step: STEP }))
          .cpuMs;
      const measure = async (name: string): Promise<Sample> => {
        const sample: Record<string, number> = {};
        for (const callers of [1, 8]) {
          const [full, known] = [
            await cpuOf(name, "Apollo, GET", callers, ETAG_REQUESTS),
            await cpuOf(name, "Apollo, GET with ETag", callers, ETAG_REQUESTS),
          ];
          sample[OF_FULL(callers)] = known / full;
        }
        return sample;
      };
      // Not counted: the first responses are executed, and have no tags that clients know.
      for (const name of OURS) await measure(name);
      return rowsOf(await interleave(OURS, ctx.count(4, 10), measure));
    });
  },
};

const ETAG_REQUESTS = 1_000;

const OF_FIELDS = "of fields alone";
const PAGE_REQUESTS = 2_000;

/** The page of the shop, with 2 % mutations: what responses add to fields when what is on the page changes. */
export const responsesMixed: Scenario = {
  name: "responses-mixed",
  title: "page with 2 % mutations, 32 callers, source 3 ms, whole responses beside fields alone",
  measures: [
    {
      name: OF_FIELDS,
      unit: "x",
      better: "more",
      targets: [cachedResponses, responsesNoMemory].map(({ name }) => ({ contender: name, bound: 0.95 })),
    },
    { name: "of no cache", unit: "x", better: "more" },
    { name: "requests/s", unit: "", better: "more" },
    { name: "CPU a request", unit: "us", better: "less" },
    { name: "source calls a request", unit: "", better: "less" },
    ...mistakeMeasures([cachedResponses.name, responsesNoMemory.name]),
  ],
  run: async (ctx): Promise<readonly Row[]> => {
    const taken: Samples = new Map();
    const reports: Reports = new Map();
    const names = RESPONSE_CONTENDERS.map(({ name }) => name);
    for (let start = 0; start < ctx.count(1, 2); start++)
      await withFleets(ctx, names, { program: PAGE, setup: {} }, async (fleets) => {
        const seed = ctx.seed + 1_000 * start;
        const visit = (name: string, round: number): Promise<VisitReport> =>
          (fleets.get(name) as Fleet<PageCommands>).send(0, "visit", {
            callers: 32,
            callMs: 3,
            requests: PAGE_REQUESTS,
            seed: seed + 1 + round,
          });
        await warmUp(ctx, fleets, { seed, requests: WARM_UP, reports });
        const measure = async (name: string, round: number): Promise<Sample> => {
          const report = await visit(name, round);
          addReport(reports, name, report);
          const { requests, elapsedMs, cpuMs, sourceCalls } = report;
          return {
            "requests/s": (requests / elapsedMs) * 1e3,
            "CPU a request": (cpuMs / requests) * 1e3,
            "source calls a request": sourceCalls / requests,
          };
        };
        const relate = (samples: ReadonlyMap<string, Sample>, name: string): Sample => {
          const speed = (one: string): number => samples.get(one)?.["requests/s"] ?? Number.NaN;
          const fields = name.includes("no memory") ? cachedNoMemory.name : cached.name;
          return {
            ...samples.get(name),
            [OF_FIELDS]: speed(name) / speed(fields),
            "of no cache": speed(name) / speed(dataLoaderOnly.name),
          };
        };
        await interleave(names, ctx.count(3, 5), measure, relate, taken);
      });
    return withMistakes(rowsOf(taken), reports, responseCache.name);
  },
};
