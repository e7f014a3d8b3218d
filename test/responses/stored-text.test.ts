import { inspect, types } from "node:util";
import { HeaderMap } from "@apollo/server";
import { FakeClock, settle } from "@graphql-cached/testing";
import fc from "fast-check";
import { GraphQLScalarType, parse } from "graphql";
import { type CacheOptions, memoryStore, type ResponsesOptions } from "graphql-cached";
import { stringifyResult } from "graphql-cached/apollo";
import type { Reading } from "graphql-cached/store";
import type { Plugin } from "graphql-yoga";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { stringifyWith } from "../../src/core/responses/stored-response.js";
import { msgpackrCodec } from "../support/msgpackr-codec.js";
import { overrideStore } from "../support/override-store.js";
import { apolloOf, askApollo, openSite, postYoga, yogaOf } from "./site.js";

const QUERY = "{ films { title stars note more } __proto__: count }";
const FILMS = [
  { title: 'Ran "乱" \u2028 \u{1f3ac}', stars: 4.5, note: null, more: { b: [], a: { "1": true, "0": -0 } } },
  { title: "", stars: 1e21, note: "\ud800 \n\\", more: [] },
];
const TEXT = JSON.stringify({ data: { films: FILMS, ["__proto__"]: 2 } });
const TRACED = { ...JSON.parse(TEXT), extensions: { cached: { responses: { hit: 1 } } } };

interface Options {
  readonly cache?: CacheOptions;
  readonly responses?: boolean | ResponsesOptions;
  /** Plugins before that of the cache, and after it. */
  readonly before?: readonly unknown[];
  readonly after?: readonly unknown[];
}

/** A site whose loads are counted. */
function open(cache: CacheOptions = {}) {
  const typeDefs = /* GraphQL */ `
    scalar JSON
    type Query { films: [Film!]! @cached(maxAge: 60) @cacheControl(maxAge: 60)  count: Int @cacheControl(maxAge: 60) }
    type Film @cacheControl(inheritMaxAge: true) { title: String! stars: Float! note: String more: JSON }
  `;
  const films = vi.fn(() => FILMS);
  const resolvers = { Query: { films, count: () => 2 } };
  return { ...openSite({ typeDefs, resolvers, cache: cache as never }), films };
}

/** Sends operations to Apollo Server over HTTP, and returns the texts of the responses. */
async function openApollo({
  cache,
  stringifies = true,
  ...plugins
}: Options & { readonly stringifies?: boolean } = {}) {
  const site = open(cache);
  const own = { allowBatchedHttpRequests: true, ...(stringifies ? { stringifyResult } : {}) };
  const server = apolloOf(site, { ...plugins, ...own });
  await server.start();
  const send = async (body: unknown = { query: QUERY }, method: "GET" | "POST" = "POST"): Promise<string> => {
    const headers = new HeaderMap([["content-type", "application/json"]]);
    const search = method === "GET" ? `?${new URLSearchParams(body as Record<string, string>).toString()}` : "";
    const response = await server.executeHTTPGraphQLRequest({
      httpGraphQLRequest: { method, headers, search, body: body as never },
      context: async () => ({}),
    });
    await settle();
    return response.body.kind === "complete" ? response.body.string : "";
  };
  return { server, send, films: site.films };
}

/** Sends operations to GraphQL Yoga, and returns the texts of the responses. */
async function openYoga({ cache, ...plugins }: Options = {}) {
  const site = open(cache);
  const yoga = yogaOf(site, { ...plugins, batching: true });
  return { send: (body: unknown = { query: QUERY }) => postYoga(yoga, body), films: site.films };
}

interface Result {
  data: Record<string, unknown> | null;
  errors?: unknown;
  extensions?: object;
}
/** Plugins that do something with the result that is sent. */
const ofApollo = (use: (result: Result) => unknown) => ({
  requestDidStart: async () => ({
    willSendResponse: async ({ response }: { response: { body: unknown } }) =>
      void use((response.body as { singleResult: Result }).singleResult),
  }),
});
const ofYoga = (use: (result: Result) => unknown): Plugin => ({
  onResultProcess: ({ result }) => void use(result as unknown as Result),
});

const FORMS: readonly (readonly [string, CacheOptions])[] = [
  ["the default options", {}],
  ["memory that counts for two seconds", { memory: { maxStalenessMs: 2_000 } }],
  ["compression", { storage: { compressAboveBytes: 1 } }],
  ["another codec", { codec: msgpackrCodec() }],
  ["encryption", { encryption: { keys: [{ id: "one", key: Buffer.alloc(32, 7) }] } }],
];

/** Runs `send` and returns how often it has parsed or stringified the films. */
async function countConversions(send: () => Promise<string>): Promise<number> {
  const parsed = vi.spyOn(JSON, "parse");
  const stringified = vi.spyOn(JSON, "stringify");
  try {
    await send();
    const parses = parsed.mock.results.filter(({ value }) => hasFilms(value));
    return parses.length + stringified.mock.calls.filter(([value]) => hasFilms(value)).length;
  } finally {
    parsed.mockRestore();
    stringified.mockRestore();
  }
}

const hasFilms = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  (Object.hasOwn(value, "films") || hasFilms((value as { readonly data?: unknown }).data));

/** What a plugin can do with the data of a response, and what is sent then. */
const USES: readonly (readonly [string, (data: Record<string, unknown>) => unknown, string])[] = [
  ["gets a field", (data) => expect(data.films).toEqual(JSON.parse(JSON.stringify(FILMS))), TEXT],
  ["asks for a field", (data) => expect("films" in data).toBe(true), TEXT],
  ["lists the fields", (data) => expect(Object.keys(data)).toEqual(["films", "__proto__"]), TEXT],
  ["copies it", (data) => expect(JSON.stringify({ data: { ...data } })).toBe(TEXT), TEXT],
  ["clones it", (data) => expect(JSON.stringify({ data: structuredClone(data) })).toBe(TEXT), TEXT],
  ["stringifies it", (data) => expect(JSON.stringify({ data })).toBe(TEXT), TEXT],
  ["describes a field", (data) => expect(Object.getOwnPropertyDescriptor(data, "films")?.writable).toBe(true), TEXT],
  ["asks whether it is frozen", (data) => expect(Object.isFrozen(data)).toBe(false), TEXT],
  ["freezes it", (data) => expect(Object.isFrozen(Object.freeze(data))).toBe(true), TEXT],
  ["logs it", (data) => expect(inspect(data)).toContain("Ran"), TEXT],
  ["asks for its prototype", (data) => expect(Object.getPrototypeOf(data)).toBe(Object.prototype), TEXT],
  ["sets a field", (data) => Reflect.set(data, "films", 1), '{"data":{"films":1,"__proto__":2}}'],
  ["adds a field", (data) => Reflect.set(data, "more", 1), TEXT.replace('"__proto__":2', '"__proto__":2,"more":1')],
  [
    "defines a field",
    (data) => Object.defineProperty(data, "films", { value: 1 }),
    '{"data":{"films":1,"__proto__":2}}',
  ],
  ["deletes a field", (data) => Reflect.deleteProperty(data, "films"), '{"data":{"__proto__":2}}'],
  ["changes an object in it", ({ films }) => (films as unknown[]).splice(0), '{"data":{"films":[],"__proto__":2}}'],
];

describe.each([
  { name: "Apollo Server with stringifyResult", opened: openApollo, pluginOf: ofApollo, end: "\n" },
  { name: "GraphQL Yoga", opened: openYoga, pluginOf: ofYoga, end: "" },
])("$name", ({ opened, pluginOf, end }) => {
  it.each(FORMS)("sends the same text for misses and hits with %s", async (_, cache) => {
    const { send, films } = await opened({ cache });
    for (let count = 0; count < 5; count++) expect(await send()).toBe(TEXT + end);
    expect(films).toHaveBeenCalledTimes(1);
  });

  it.each(FORMS)("neither parses nor stringifies the data of a hit with %s", async (_, cache) => {
    const { send } = await opened({ cache });
    // The first hit shows that the stringifier is in use.
    for (let count = 0; count < 3; count++) await send();
    expect(await countConversions(send)).toBe(0);
  });

  it.each(USES)(
    "a plugin that %s finds the data of a hit, and changes what is sent to its caller only",
    async (_, use, text) => {
      let isUsed = false;
      const plugin = pluginOf(({ data }) => isUsed && use(data as Record<string, unknown>));
      const { send, films } = await opened({ after: [plugin] });
      for (let count = 0; count < 3; count++) await send();
      isUsed = true;
      expect(await send()).toBe(text + end);
      isUsed = false;
      expect(await send()).toBe(TEXT + end);
      expect(films).toHaveBeenCalledTimes(1);
    },
  );

  it("data of a hit in memory is changed for its own caller only", async () => {
    let isChanged = false;
    const plugin = pluginOf(({ data }) => {
      const films = (data as { films: object[] }).films;
      if (!isChanged) return;
      Object.assign(films[0] as object, { title: "changed" });
      films.length = 1;
    });
    const { send } = await opened({ cache: { memory: { maxStalenessMs: 2_000 } }, after: [plugin] });
    for (let count = 0; count < 4; count++) await send();
    for (let count = 0; count < 3; count++) {
      isChanged = true;
      expect(JSON.parse(await send())).toMatchObject({ data: { films: [{ title: "changed" }] } });
      isChanged = false;
      expect(await send()).toBe(TEXT + end);
    }
  });

  it("sends each text of a batch, without parsing it, and the trace with a hit", async () => {
    const { send } = await opened();
    for (let count = 0; count < 3; count++) await send();
    const one = { query: QUERY };
    expect(JSON.parse(await send([one, one, { query: "{ count }" }]))).toEqual([
      JSON.parse(TEXT),
      JSON.parse(TEXT),
      { data: { count: 2 } },
    ]);
    expect(await countConversions(() => send([one, one]))).toBe(0);
    expect(JSON.parse(await send({ ...one, extensions: { cached: true } }))).toEqual(TRACED);
  });
});

describe("Apollo Server with stringifyResult", () => {
  it.each([
    ["POST", true],
    ["GET", true],
    ["GET", false],
  ] as const)(
    "a plugin clones the result of a hit, and copies the head of the response: %s (stringifyResult: %s)",
    async (method, stringifies) => {
      const [heads, cloned]: [object[], unknown[]] = [[], []];
      const willSendResponse = async ({ response }: { response: { http: object; body: unknown } }): Promise<void> => {
        const { singleResult } = response.body as { singleResult: object };
        heads.push({ ...response.http });
        cloned.push(structuredClone({ ...singleResult, extensions: undefined }));
      };
      const { send } = await openApollo({
        stringifies,
        after: [{ requestDidStart: async () => ({ willSendResponse }) }],
      });
      for (let count = 0; count < 4; count++) expect(await send(undefined, method)).toBe(`${TEXT}\n`);
      expect(JSON.stringify(cloned)).toBe(JSON.stringify(Array(4).fill(JSON.parse(TEXT))));
      expect(heads).toHaveLength(4);
    },
  );

  it("sends what plugins add to the result of a hit in the order of Apollo Server", async () => {
    const adding = ofApollo((result) => {
      result.extensions = { ...result.extensions, cost: 1, none: undefined };
      result.errors = [{ message: "added" }];
    });
    const { send } = await openApollo({ after: [adding] });
    const expected = `{"errors":[{"message":"added"}],${TEXT.slice(1, -1)},"extensions":{"cost":1}}\n`;
    for (let count = 0; count < 4; count++) expect(await send()).toBe(expected);
  });

  it("stringifies errors and results without data as Apollo Server does", async () => {
    const [ours, theirs] = [await openApollo(), await openApollo({ stringifies: false })];
    for (const query of ["{ nothing }", "{", "{ films { title } }"])
      expect(await ours.send({ query })).toBe(await theirs.send({ query }));
  });

  it.each([true, false])(
    "executeOperation returns data that is a plain object (stringifyResult: %s)",
    async (stringifies) => {
      const { server, send } = await openApollo({ stringifies });
      for (let count = 0; count < 3; count++) await send();
      const { body } = await server.executeOperation({ query: QUERY });
      const { data } = body.kind === "single" ? body.singleResult : {};
      expect(types.isProxy(data)).toBe(false);
      expect(JSON.stringify({ data })).toBe(TEXT);
    },
  );

  it("without stringifyResult, plugins get data that is a plain object", async () => {
    const seen: boolean[] = [];
    const { send } = await openApollo({
      stringifies: false,
      after: [ofApollo(({ data }) => seen.push(types.isProxy(data)))],
    });
    for (let count = 0; count < 4; count++) expect(await send()).toBe(`${TEXT}\n`);
    expect(seen).toEqual([false, false, false, false]);
    expect(await countConversions(send)).toBeGreaterThan(0);
  });
});

describe("GraphQL Yoga", () => {
  it("sends what a plugin has put in the place of the data or of the result of a hit", async () => {
    let change: ((result: Result, setResult: (result: never) => void) => unknown) | undefined;
    const onExecuteDone = ({ result, setResult }: { result: unknown; setResult: (result: never) => void }): void =>
      void change?.(result as Result, setResult);
    const { send } = await openYoga({ after: [{ onExecute: () => ({ onExecuteDone }) }] });
    await send();
    change = (result) => (result.data = null);
    expect(await send()).toBe('{"data":null}');
    change = (result, setResult) => setResult({ ...result, extensions: { cost: 1 } } as never);
    expect(await send()).toBe(`${TEXT.slice(0, -1)},"extensions":{"cost":1}}`);
    change = (result) => Object.assign(result, { extensions: { cost: 2 } });
    expect(await send()).toBe(`${TEXT.slice(0, -1)},"extensions":{"cost":2}}`);
    change = (result) => Object.assign(result, { errors: [new Error("added")] });
    expect(JSON.parse(await send())).toMatchObject({ ...JSON.parse(TEXT), errors: [{}] });
    change = (result, setResult) => setResult(structuredClone(result) as never);
    expect(await send()).toBe(TEXT);
    change = (result) => expect(Object.freeze(result).data).toBeDefined();
    expect(await send()).toBe(TEXT);
  });

  it("sends stored extensions with a hit, without parsing its data", async () => {
    const executor: Plugin = {
      onExecute({ executeFn, setExecuteFn }) {
        setExecuteFn(async (args) => ({ ...(await executeFn(args)), extensions: { cost: 1, secret: 2 } }));
      },
    };
    const { send } = await openYoga({ before: [executor], responses: { extensions: ["cost"] } });
    await send();
    expect(await send()).toBe(`${TEXT.slice(0, -1)},"extensions":{"cost":1}}`);
    expect(await countConversions(send)).toBe(0);
  });
});

it.each(["envelop", "cache.execute"])(
  "%s without HTTP answers with the JSON of what scalars return, whether it is executed, stored or served",
  async (name) => {
    const typeDefs = "scalar Any type Query { any: Any @cacheControl(maxAge: 600) }";
    const site = openSite({ typeDefs, resolvers: { Query: { any: () => new Date(0) } } });
    const { schema, cache } = site;
    const enveloped = yogaOf(site).getEnveloped({} as never) as { execute(args: object): Promise<{ data?: unknown }> };
    for (let time = 0; time < 4; time++) {
      const args = { schema, document: parse("{ any }"), contextValue: {} };
      const { data } = await (name === "envelop" ? enveloped.execute(args) : cache.execute(args, {}));
      expect(data).toEqual({ any: "1970-01-01T00:00:00.000Z" });
      await settle();
    }
  },
);

describe("cache.execute", () => {
  it("gives each of several readers of one tick its own data", async () => {
    const { execute } = open();
    await execute(QUERY);
    const answers = (await Promise.all([1, 2, 3, 4].map(() => execute(QUERY)))) as { films: unknown[] }[];
    for (const [index, data] of answers.entries()) {
      expect(JSON.stringify({ data })).toBe(TEXT);
      expect(answers.indexOf(data)).toBe(index);
      data.films.length = 0;
    }
    expect(JSON.stringify({ data: await execute(QUERY) })).toBe(TEXT);
  });

  it("gives each reader of a text in memory data of its own, and parses the text once", async () => {
    const { execute } = open({ memory: { maxStalenessMs: 2_000 } });
    for (let count = 0; count < 5; count++) await execute(QUERY);
    const parsed = vi.spyOn(JSON, "parse");
    for (let count = 0; count < 3; count++) {
      const data = (await execute(QUERY)) as { films: unknown[] };
      expect(JSON.stringify({ data })).toBe(TEXT);
      data.films.length = 0;
    }
    expect(parsed).not.toHaveBeenCalled();
    parsed.mockRestore();
  });
});

it("executes an operation again whose stored response is damaged, and sends no damaged text", async () => {
  let isDamaged = false;
  const inner = memoryStore({ clock: new FakeClock() });
  const store = overrideStore(inner, {
    read: async (...args) => {
      const answer = await inner.read(...args);
      return isDamaged ? { ...answer, readings: answer.readings.map(damaged) } : answer;
    },
  });
  const events: string[] = [];
  const { send } = await openYoga({ cache: { store, memory: false, onEvent: ({ name }) => events.push(name) } });
  await send();
  expect(await send()).toBe(TEXT);
  isDamaged = true;
  expect(await send()).toBe(TEXT);
  expect(events).toContain("entry.corrupt");
});

/** Returns a reading in which a letter of the response has changed, so that it is still JSON. Other entries are left as they are. */
function damaged(reading: Reading): Reading {
  if (reading.kind !== "read" || reading.entry === undefined) return reading;
  const body = Buffer.from(reading.entry.body);
  if (!body.includes("__proto__")) return reading;
  body.write("r", body.indexOf("Ran"));
  return { ...reading, entry: { ...reading.entry, body } };
}

it("a result with a text in place of its data is stringified as JSON.stringify does it", () => {
  const members = fc.dictionary(fc.string(), fc.jsonValue());
  const result = fc.record(
    {
      errors: fc.oneof(fc.constant(undefined), fc.array(fc.jsonValue())),
      data: members,
      extensions: members,
      hasNext: fc.boolean(),
    },
    { requiredKeys: ["data"] },
  );
  fc.assert(
    fc.property(result, (one) => {
      expect(stringifyWith(JSON.stringify(one.data), one)).toBe(JSON.stringify(one));
    }),
  );
});

const BIG = 2n ** 60n;

function openBig() {
  let executions = 0;
  const site = openSite({
    typeDefs: "scalar Big type Query { big: Big @cacheControl(maxAge: 60) }",
    resolvers: {
      Big: new GraphQLScalarType({ name: "Big", serialize: (value) => value }),
      Query: { big: () => (executions++, BIG) },
    },
    closes: false,
  });
  // A load that never ends delays what closes until the time limit of loads.
  onTestFinished(async () => {
    const closed = site.cache.close();
    for (let turn = 0; turn < 40; turn++) {
      await settle();
      await site.clock.advance(1_000);
    }
    await closed;
  });
  return { ...site, executions: () => executions };
}

it("cache.execute answers as without the cache if a scalar is serialised to what JSON lacks, and the next request at once", async () => {
  const { execute, clock, executions } = openBig();
  expect(await execute("{ big }")).toEqual({ big: BIG });
  let hasAnswered = false;
  const answer = execute("{ big }").finally(() => (hasAnswered = true));
  for (let turn = 0; turn < 20; turn++) await settle();
  const before = [hasAnswered, executions()];
  await clock.advance(31_000);
  expect(await answer).toEqual({ big: BIG });
  expect(before).toEqual([true, 2]);
});

it("Apollo Server answers with its own stringifyResult although JSON.stringify would refuse the data", async () => {
  const apollo = apolloOf(openBig(), {
    stringifyResult: (value) => JSON.stringify(value, (_, one) => (typeof one === "bigint" ? String(one) : one)),
  });
  const { data, http } = await askApollo(apollo, "{ big }");
  expect(data).toEqual({ big: BIG });
  expect(http.status).not.toBe(500);
});
