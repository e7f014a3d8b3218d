import { inspect, types } from "node:util";
import { ApolloServer, type ApolloServerPlugin, HeaderMap } from "@apollo/server";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import fc from "fast-check";
import { parse } from "graphql";
import {
  applyCached,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  memoryStore,
  type ResponsesOptions,
} from "graphql-cached";
import { cachedPlugin, stringifyResult } from "graphql-cached/apollo";
import type { Reading } from "graphql-cached/store";
import { useCached } from "graphql-cached/yoga";
import { createYoga, type Plugin } from "graphql-yoga";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { stringifyWith } from "../../src/core/responses/stored-response.js";
import { msgpackrCodec } from "../support/msgpackr-codec.js";
import { overrideStore } from "../support/override-store.js";
import { HINTS, knowOperations } from "./site.js";

const QUERY = "{ films { title stars note more } __proto__: count }";
const FILMS = [
  { title: 'Ran "乱" \u2028 \u{1f3ac}', stars: 4.5, note: null, more: { b: [], a: { "1": true, "0": -0 } } },
  { title: "", stars: 1e21, note: "\ud800 \n\\", more: [] },
];
const TEXT = JSON.stringify({ data: { films: FILMS, ["__proto__"]: 2 } });

interface Options {
  readonly cache?: CacheOptions;
  readonly responses?: boolean | ResponsesOptions;
}

/** A cache, and a schema whose loads are counted. */
function open({ cache: options }: Options) {
  knowOperations();
  const typeDefs = /* GraphQL */ `
    scalar JSON
    type Query { films: [Film!]! @cached(maxAge: 60) @cacheControl(maxAge: 60)  count: Int @cacheControl(maxAge: 60) }
    type Film @cacheControl(inheritMaxAge: true) { title: String! stars: Float! note: String more: JSON }
  `;
  const films = vi.fn(() => FILMS);
  const clock = new FakeClock();
  const cache = createCache({
    defaultScope: "PUBLIC",
    store: memoryStore({ clock }),
    testing: { clock },
    logger: { warn: () => undefined, info: () => undefined },
    ...options,
    defaults: { jitter: 0, earlyRefresh: 0 },
  });
  onTestFinished(() => cache.close());
  const resolvers = { Query: { films, count: () => 2 } };
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, HINTS, typeDefs], resolvers }), cache);
  return { cache, schema, films };
}

interface ApolloOptions extends Options {
  readonly plugins?: readonly ApolloServerPlugin[];
  readonly stringifies?: boolean;
}

/** Sends operations to Apollo Server over HTTP, and returns the texts of the responses. */
async function openApollo({ plugins = [], stringifies = true, responses = true, ...options }: ApolloOptions = {}) {
  const { cache, schema, films } = open(options);
  const server = new ApolloServer({
    schema,
    plugins: [cachedPlugin(cache, { responses, allow: () => true }), ...plugins],
    allowBatchedHttpRequests: true,
    ...(stringifies ? { stringifyResult } : {}),
  });
  onTestFinished(() => server.stop());
  await server.start();
  const send = async (body: unknown = { query: QUERY }, method: "GET" | "POST" = "POST"): Promise<string> => {
    const response = await server.executeHTTPGraphQLRequest({
      httpGraphQLRequest: {
        method,
        headers: new HeaderMap([["content-type", "application/json"]]),
        search: method === "GET" ? `?${new URLSearchParams(body as Record<string, string>).toString()}` : "",
        body: body as never,
      },
      context: async () => ({}),
    });
    await settle();
    return response.body.kind === "complete" ? response.body.string : "";
  };
  return { server, send, films };
}

interface YogaOptions extends Options {
  readonly plugins?: readonly Plugin[];
  /** Plugins that come before the one of the cache. */
  readonly before?: readonly Plugin[];
}

/** Sends operations to GraphQL Yoga, and returns the texts of the responses. */
function openYoga({ plugins = [], before = [], responses = true, ...options }: YogaOptions = {}) {
  const { cache, schema, films } = open(options);
  const yoga = createYoga({
    schema,
    logging: false,
    batching: true,
    plugins: [...before, useCached(cache, { responses, allow: () => true }) as Plugin, ...plugins],
  });
  onTestFinished(() => void yoga.dispose());
  const send = async (body: unknown = { query: QUERY }): Promise<string> => {
    const response = await yoga.fetch("http://localhost/graphql", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    await settle();
    return text;
  };
  return { send, films };
}

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
  [
    "changes an object in it",
    ({ films }) => {
      (films as { title: string }[]).length = 0;
    },
    '{"data":{"films":[],"__proto__":2}}',
  ],
];

describe("Apollo Server with stringifyResult", () => {
  it.each(FORMS)("sends the same text for misses and hits with %s", async (_, cache) => {
    const { send, films } = await openApollo({ cache });
    for (let count = 0; count < 5; count++) expect(await send()).toBe(`${TEXT}\n`);
    expect(films).toHaveBeenCalledTimes(1);
  });

  it.each(FORMS)("neither parses nor stringifies the data of a hit with %s", async (_, cache) => {
    const { send } = await openApollo({ cache });
    // The first hit shows that the stringifier is in use.
    for (let count = 0; count < 3; count++) await send();
    expect(await countConversions(send)).toBe(0);
  });

  it.each(USES)(
    "a plugin that %s finds the data of a hit, and changes what is sent to its caller only",
    async (_, use, text) => {
      let isUsed = false;
      const willSendResponse = async ({ response }: { response: { body: unknown } }): Promise<void> => {
        if (!isUsed) return;
        use((response.body as { singleResult: { data: Record<string, unknown> } }).singleResult.data);
      };
      const { send, films } = await openApollo({ plugins: [{ requestDidStart: async () => ({ willSendResponse }) }] });
      for (let count = 0; count < 3; count++) await send();
      isUsed = true;
      expect(await send()).toBe(`${text}\n`);
      isUsed = false;
      expect(await send()).toBe(`${TEXT}\n`);
      expect(films).toHaveBeenCalledTimes(1);
    },
  );

  it.each([
    ["POST", true],
    ["GET", true],
    ["GET", false],
  ] as const)(
    "a plugin clones the result of a hit, and copies the head of the response: %s (stringifyResult: %s)",
    async (method, stringifies) => {
      const cloned: unknown[] = [];
      const willSendResponse = async ({ response }: { response: { http: object; body: unknown } }): Promise<void> => {
        const { singleResult } = response.body as { singleResult: object };
        cloned.push({ ...response.http }, structuredClone({ ...singleResult, extensions: undefined }));
      };
      const plugins = [{ requestDidStart: async () => ({ willSendResponse }) }];
      const { send } = await openApollo({ plugins, stringifies });
      for (let count = 0; count < 4; count++) expect(await send(undefined, method)).toBe(`${TEXT}\n`);
      expect(JSON.stringify(cloned.filter((_, index) => index % 2 === 1))).toBe(
        JSON.stringify(Array(4).fill(JSON.parse(TEXT))),
      );
    },
  );

  it("data of a hit in memory is changed for its own caller only", async () => {
    const willSendResponse = async ({ response }: { response: { body: unknown } }): Promise<void> => {
      const { data } = (response.body as { singleResult: { data: { films: { title: string }[] } } }).singleResult;
      Object.assign(data.films[0] as object, { title: "changed" });
      data.films.length = 1;
    };
    let isChanged = false;
    const plugin = {
      requestDidStart: async () => (isChanged ? { willSendResponse } : {}),
    };
    const { send } = await openApollo({ cache: { memory: { maxStalenessMs: 2_000 } }, plugins: [plugin] });
    for (let count = 0; count < 4; count++) await send();
    for (let count = 0; count < 3; count++) {
      isChanged = true;
      expect(JSON.parse(await send())).toMatchObject({ data: { films: [{ title: "changed" }] } });
      isChanged = false;
      expect(await send()).toBe(`${TEXT}\n`);
    }
  });

  it("sends what plugins add to the result of a hit in the order of Apollo Server", async () => {
    const willSendResponse = async ({ response }: { response: { body: unknown } }): Promise<void> => {
      const { singleResult } = response.body as { singleResult: { extensions?: object; errors?: object[] } };
      singleResult.extensions = { ...singleResult.extensions, cost: 1, none: undefined };
      singleResult.errors = [{ message: "added" }];
    };
    const plugins = [{ requestDidStart: async () => ({ willSendResponse }) }];
    const { send } = await openApollo({ plugins });
    const expected = `{"errors":[{"message":"added"}],${TEXT.slice(1, -1)},"extensions":{"cost":1}}\n`;
    for (let count = 0; count < 4; count++) expect(await send()).toBe(expected);
  });

  it("sends the trace with a hit", async () => {
    const { send } = await openApollo();
    for (let count = 0; count < 3; count++) await send();
    expect(JSON.parse(await send({ query: QUERY, extensions: { cached: true } }))).toEqual({
      ...JSON.parse(TEXT),
      extensions: { cached: { responses: { hit: 1 } } },
    });
  });

  it("sends each text of a batch, without parsing it", async () => {
    const { send } = await openApollo();
    for (let count = 0; count < 3; count++) await send();
    const one = { query: QUERY };
    expect(JSON.parse(await send([one, one, { query: "{ count }" }]))).toEqual([
      JSON.parse(TEXT),
      JSON.parse(TEXT),
      { data: { count: 2 } },
    ]);
    expect(await countConversions(() => send([one, one]))).toBe(0);
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
    const willSendResponse = async ({ response }: { response: { body: unknown } }): Promise<void> => {
      seen.push(types.isProxy((response.body as { singleResult: { data: unknown } }).singleResult.data));
    };
    const plugins = [{ requestDidStart: async () => ({ willSendResponse }) }];
    const { send } = await openApollo({ stringifies: false, plugins });
    for (let count = 0; count < 4; count++) expect(await send()).toBe(`${TEXT}\n`);
    expect(seen).toEqual([false, false, false, false]);
    expect(await countConversions(send)).toBeGreaterThan(0);
  });
});

describe("GraphQL Yoga", () => {
  it.each(FORMS)("sends the same text for misses and hits with %s", async (_, cache) => {
    const { send, films } = openYoga({ cache });
    for (let count = 0; count < 5; count++) expect(await send()).toBe(TEXT);
    expect(films).toHaveBeenCalledTimes(1);
  });

  it.each(FORMS)("neither parses nor stringifies the data of a hit with %s", async (_, cache) => {
    const { send } = openYoga({ cache });
    for (let count = 0; count < 3; count++) await send();
    expect(await countConversions(send)).toBe(0);
  });

  it.each(USES)(
    "a plugin that %s finds the data of a hit, and changes what is sent to its caller only",
    async (_, use, text) => {
      let isUsed = false;
      const onResultProcess = ({ result }: { result: unknown }): void => {
        if (isUsed) use((result as { data: Record<string, unknown> }).data);
      };
      const { send, films } = openYoga({ plugins: [{ onResultProcess }] });
      await send();
      isUsed = true;
      expect(await send()).toBe(text);
      isUsed = false;
      expect(await send()).toBe(TEXT);
      expect(films).toHaveBeenCalledTimes(1);
    },
  );

  it("sends what a plugin has put in the place of the data or of the result of a hit", async () => {
    let change = (result: Record<string, unknown>, _: (result: never) => void): void => {
      result.data = null;
    };
    let isUsed = false;
    const onExecuteDone = ({ result, setResult }: { result: unknown; setResult: (result: never) => void }): void => {
      if (isUsed) change(result as Record<string, unknown>, setResult);
    };
    const { send } = openYoga({ plugins: [{ onExecute: () => ({ onExecuteDone }) as never }] });
    await send();
    isUsed = true;
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
    const before: Plugin = {
      onExecute({ executeFn, setExecuteFn }) {
        setExecuteFn(async (args) => ({ ...(await executeFn(args)), extensions: { cost: 1, secret: 2 } }));
      },
    };
    const { send } = openYoga({ before: [before], responses: { extensions: ["cost"] } });
    await send();
    expect(await send()).toBe(`${TEXT.slice(0, -1)},"extensions":{"cost":1}}`);
    expect(await countConversions(send)).toBe(0);
  });

  it("sends each text of a batch, and the trace with a hit", async () => {
    const { send } = openYoga();
    await send();
    const one = { query: QUERY };
    expect(await send([one, one])).toBe(`[${TEXT},${TEXT}]`);
    expect(JSON.parse(await send({ ...one, extensions: { cached: true } }))).toMatchObject({
      ...JSON.parse(TEXT),
      extensions: { cached: { responses: { hit: 1 } } },
    });
  });
});

describe("cache.execute", () => {
  it("gives each of several readers of one tick its own data", async () => {
    const { cache, schema } = open({});
    const document = parse(QUERY);
    const ask = async () => (await cache.execute({ schema, document, contextValue: {} })).data as { films: unknown[] };
    await ask();
    await settle();
    const answers = await Promise.all([ask(), ask(), ask(), ask()]);
    for (const [index, data] of answers.entries()) {
      expect(JSON.stringify({ data })).toBe(TEXT);
      expect(answers.indexOf(data)).toBe(index);
      data.films.length = 0;
    }
    expect(JSON.stringify({ data: await ask() })).toBe(TEXT);
  });

  it("gives each reader of a text in memory data of its own, and parses the text once", async () => {
    const { cache, schema } = open({ cache: { memory: { maxStalenessMs: 2_000 } } });
    const document = parse(QUERY);
    const ask = async () => (await cache.execute({ schema, document, contextValue: {} })).data as { films: unknown[] };
    for (let count = 0; count < 4; count++) {
      await ask();
      await settle();
    }
    await ask();
    const parsed = vi.spyOn(JSON, "parse");
    for (let count = 0; count < 3; count++) {
      const data = await ask();
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
  const { send } = openYoga({ cache: { store, memory: false, onEvent: ({ name }) => events.push(name) } });
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
