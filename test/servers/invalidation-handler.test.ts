import { createServer, request as httpRequest } from "node:http";
import { chaosStore, settle } from "@graphql-cached/testing";
import { type Cache, type CacheEvent, type CacheOptions, memoryStore } from "graphql-cached";
import { type HttpHandler, invalidationHandler } from "graphql-cached/http";
import { describe, expect, it } from "vitest";
import { listen, MOUNTS } from "../support/mounts.js";
import { dataOf, memoryWorld } from "../support/world.js";

const SECRET = "0123456789abcdef0123456789abcdef";
const OTHER = "fedcba9876543210fedcba9876543210+";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!, locale: String = "en"): Movie @cached(maxAge: 60)
    top: Int @cached(maxAge: 60, tags: ["Ratings"])
    person(id: ID!): Person
  }
  type Movie { id: ID! }
  type Person { id: ID! }
`;

function site(options: CacheOptions<never> = {}, store = memoryStore()) {
  const loads: string[] = [];
  const load = <Value>(what: string, value: Value): Value => {
    loads.push(what);
    return value;
  };
  type Args = { readonly id: string };
  const process = memoryWorld(() => store).process(
    typeDefs,
    {
      Query: {
        movie: (_: unknown, { id }: Args) => load(`movie ${id}`, { id }),
        top: () => load("top", 1),
        person: (_: unknown, { id }: Args, context: object) => people(context).load(id),
      },
    },
    options,
    { entityTags: true },
  );
  const people = process.cache.loader({
    name: "Person",
    maxAge: 60,
    batch: async (ids: readonly string[]) => ids.map((id) => load(`person ${id}`, { id })),
  });
  /** Returns what is loaded again. */
  const reload = async (): Promise<string[]> => {
    loads.length = 0;
    await dataOf(
      process.ask('{ seven: movie(id: 7) { id } eight: movie(id: 8) { id } top person(id: "1") { id } }', {}),
    );
    await settle();
    return loads.toSorted((one, other) => (one < other ? -1 : 1));
  };
  return { ...process, reload };
}

interface Sent {
  readonly method?: string;
  readonly token?: string | undefined;
  readonly type?: string;
}

/** Sends `body`, as JSON unless it is a text, and returns the status and the answer. */
async function send(
  url: string,
  body: unknown,
  { method = "POST", token = SECRET, type = "application/json" }: Sent = {},
): Promise<{ status: number; answer: Record<string, unknown>; headers: Headers }> {
  const headers = { "content-type": type, ...(token === "" ? {} : { authorization: `Bearer ${token}` }) };
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await fetch(url, { method, headers, ...(method === "GET" ? {} : { body: text }) });
  const answer = (await response.json()) as Record<string, unknown>;
  return { status: response.status, answer, headers: response.headers };
}

const messageIn = ({ answer }: { answer: Record<string, unknown> }): string =>
  (answer.error as { message: string }).message;

describe.each(Object.entries(MOUNTS))("the invalidation handler under %s", (_name, start) => {
  it("invalidates what a request with the secret names, and nothing without it", async () => {
    const { cache, reload, events } = site();
    const url = await start(invalidationHandler({ cache, secret: [SECRET, OTHER] }));
    const all = await reload();
    expect(all).toEqual(["movie 7", "movie 8", "person 1", "top"]);
    const given: readonly (readonly [body: object, loads: readonly string[]])[] = [
      [{ tags: ["Movie:7", "Ratings"] }, ["movie 7", "top"]],
      [{ types: ["Movie"] }, ["movie 7", "movie 8"]],
      [
        {
          entries: [
            { coordinate: "Query.movie", args: { id: 8 } },
            { loader: "Person", id: "1" },
          ],
        },
        ["movie 8", "person 1"],
      ],
      [{ entries: [{ coordinate: "Query.movie", args: { id: 9 } }], tags: [] }, []],
      [{ coordinates: ["Query.movie", "Person"], tags: ["Ratings"] }, all],
      [{ everything: true }, all],
    ];
    for (const [body, loads] of given) {
      const { status, answer } = await send(url, body, { token: OTHER });
      expect([status, answer]).toEqual([200, { invalidated: body, soft: false }]);
      expect(await reload()).toEqual(loads);
    }
    for (const token of ["", `${SECRET}0`, SECRET.slice(1), SECRET.toUpperCase(), "x"]) {
      const refused = await send(url, { everything: true }, { token });
      expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
      expect(messageIn(refused)).toMatch(token === "" ? /got none$/ : /got another one$/);
    }
    expect(await reload()).toEqual([]);
    const finished = events.filter((event) => event.name === "invalidation.finished");
    expect(new Set(finished.map(({ via }) => via))).toEqual(new Set(["invalidationHandler"]));
    expect(finished).toHaveLength(given.length);
  });

  it("answers other methods and types in JSON", async () => {
    const url = await start(invalidationHandler({ cache: site().cache, secret: SECRET }));
    const got = await send(url, undefined, { method: "GET" });
    expect([got.status, got.headers.get("allow")]).toEqual([405, "POST"]);
    const put = await send(url, {}, { method: "PUT" });
    expect(put.status).toBe(405);
  });
});

describe("the invalidation handler", () => {
  const open = async (...given: Parameters<typeof site>) => {
    const opened = site(...given);
    const handler: HttpHandler = invalidationHandler({ cache: opened.cache, secret: SECRET });
    return { ...opened, url: await listen(createServer(handler)) };
  };

  it("keeps old values in service if they are to be stale", async () => {
    const { url, reload, outcomes } = await open();
    await reload();
    const { answer } = await send(url, { types: ["Movie"], soft: true });
    expect(answer).toEqual({ invalidated: { types: ["Movie"] }, soft: true });
    await reload();
    expect(outcomes()).toMatchObject({ stale: 2 });
  });

  it("never serves old values if `soft` is false", async () => {
    const { url, reload, outcomes } = await open();
    await reload();
    const { status, answer } = await send(url, { types: ["Movie"], soft: false });
    expect([status, answer]).toEqual([200, { invalidated: { types: ["Movie"] }, soft: false }]);
    expect(await reload()).toEqual(["movie 7", "movie 8"]);
    expect(outcomes()).not.toHaveProperty("stale");
  });

  it("answers 503 while the store does not confirm, and the invalidation is repeated", async () => {
    const store = chaosStore(memoryStore());
    const { url, cache, reload } = await open({}, store);
    await reload();
    store.chaos.mode = "throws";
    const { status, answer } = await send(url, { tags: ["Movie:7"] });
    expect([status, (answer.error as { code: string }).code]).toEqual([503, "CACHED_STORE_UNAVAILABLE"]);
    store.chaos.mode = undefined;
    await cache.settled();
    expect(await reload()).toContain("movie 7");
  });

  it("answers the same whether there was an entry or not", async () => {
    const { url, reload } = await open();
    await reload();
    const answers = [];
    for (const id of [7, 7, 9])
      answers.push(
        await send(url, { entries: [{ coordinate: "Query.movie", args: { id } }] }).then(({ status }) => status),
      );
    expect(answers).toEqual([200, 200, 200]);
  });

  const MISTAKES: readonly (readonly [body: unknown, message: RegExp])[] = [
    ["", /expected JSON, got text that cannot be parsed/],
    ["{", /expected JSON/],
    ["null", /expected a JSON object/],
    ['["Movie:7"]', /expected a JSON object/],
    [{}, /expected one of `tags`, `types`, `entries`, `coordinates` or `everything`, got none/],
    [{ soft: true }, /got none/],
    [{ tag: ["Movie:7"] }, /`tag`: unknown property; expected one of .*did you mean `tags`\?/],
    [{ tags: "Movie:7" }, /`tags`: expected an array, got "Movie:7"/],
    [{ tags: null }, /`tags`: expected an array, got null/],
    [{ tags: [7] }, /`tags`: expected an array of non-empty strings/],
    [{ tags: ["Movie:*"] }, /tags have no wildcards/],
    [{ tags: ["Movie:undefined"] }, /missing value/],
    [{ tags: [["Movie:7"]] }, /non-empty strings/],
    [{ types: ["Movie:7"] }, /`types`: expected names of types such as Movie, got "Movie:7"/],
    [{ types: [undefined] }, /`types`: expected names of types/],
    [{ coordinates: ["Query.none"] }, /Query\.none/],
    [{ coordinates: [{}] }, /`coordinates`: expected coordinates/],
    [
      { entries: [{ coordinate: "Query.movie" }] },
      /`entries\[0\]`: expected a target that names one entry|`args\.id`|id/,
    ],
    [{ entries: [{ loader: "Person" }] }, /name it in `coordinates`/],
    [{ entries: [{ coordinate: "Query.movie", args: null }] }, /`entries\[0\]\.args`/],
    [{ entries: [{ coordinate: "Query.movie", arguments: {} }] }, /unknown property/],
    [{ entries: ["Query.movie"] }, /entries\[0\]/],
    [{ entries: [null] }, /entries\[0\]/],
    [{ everything: "yes" }, /`everything`: expected true, or nothing, got "yes"/],
    [{ everything: false }, /`everything`: expected true, or nothing, got false/],
    [{ everything: true, tags: [] }, /expected either `everything` or `tags`, got both/],
    [{ tags: [], soft: "no" }, /`soft`/],
    [{ tags: Array.from({ length: 1_001 }, (_, nth) => `t${nth}`) }, /expected at most 1000 targets/],
    [
      { tags: Array.from({ length: 600 }, (_, nth) => `t${nth}`), types: Array.from({ length: 600 }, () => "T") },
      /expected at most 1000 targets/,
    ],
    ['{"__proto__":{"tags":["a"]}}', /`__proto__`: unknown property/],
    ['{"constructor":{"prototype":{"x":1}},"tags":[]}', /`constructor`: unknown property/],
    ['{"tags":{"length":1,"0":"a"}}', /`tags`: expected an array/],
    [
      '{"entries":[{"coordinate":"Query.movie","__proto__":{"args":{"id":7}}}]}',
      /`entries\[0\]\.__proto__`: unknown property/,
    ],
    ['{"entries":[{"coordinate":"Query.movie","constructor":1}]}', /`entries\[0\]\.constructor`: unknown property/],
    ['{"entries":[{"loader":"Person","toString":1,"id":"1"}]}', /`entries\[0\]\.toString`: unknown property/],
    ['{"entries":[{"coordinate":"Query.movie","args":{"__proto__":{"id":7}}}]}', /id/],
    [`{"entries":[{"loader":"Person","id":${"[".repeat(50_000)}1${"]".repeat(50_000)}}]}`, /./],
  ];

  const titled = MISTAKES.map(([body, message]) => [JSON.stringify(body).slice(0, 100), body, message] as const);
  it.each(titled)("refuses %s", async (_, body, message) => {
    const { url, reload, events, cache } = await open();
    await reload();
    const refused = await send(url, body);
    expect(messageIn(refused)).toMatch(message);
    expect(refused.status).toBe(400);
    expect(await reload()).toEqual([]);
    expect(events.filter(({ name }) => name === "invalidation.finished")).toEqual([]);
    expect(({} as { tags?: unknown }).tags).toBeUndefined();
    expect(cache).toBeDefined();
  });

  it("takes as many targets as a request can name", async () => {
    const { url } = await open();
    const tags = Array.from({ length: 1_000 }, (_, nth) => `t${nth}`);
    expect((await send(url, { tags })).status).toBe(200);
  });

  it("refuses other types of bodies, and bodies that are too large, before it has read them", async () => {
    const { url, reload } = await open();
    await reload();
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
      expect((await send(url, { everything: true }, { type })).status).toBe(415);
    expect((await send(url, { everything: true }, { type: "application/json; charset=utf-8" })).status).toBe(200);
    await reload();
    const large = JSON.stringify({ tags: ["x".repeat(300_000)] });
    const sent = await send(url, large).then(
      ({ status }) => status,
      () => "connection closed",
    );
    expect([413, "connection closed"]).toContain(sent);
    expect(await reload()).toEqual([]);
  });

  it("answers a caller without the secret although its body never ends", async () => {
    const { url } = await open();
    const status = await new Promise((resolve, reject) => {
      const endless = httpRequest(
        url,
        { method: "POST", headers: { "content-type": "application/json" } },
        (response) => {
          resolve(response.statusCode);
          endless.destroy();
        },
      );
      endless.on("error", reject);
      endless.write("{");
    });
    expect(status).toBe(401);
  });

  it("survives a caller that hangs up", async () => {
    const { url } = await open();
    await new Promise<void>((resolve) => {
      const headers = {
        "content-type": "application/json",
        authorization: `Bearer ${SECRET}`,
        "content-length": "100",
      };
      const half = httpRequest(url, { method: "POST", headers });
      half.on("error", () => resolve());
      half.write("{", () => half.destroy(new Error("hung up")));
    });
    expect((await send(url, { tags: ["a"] })).status).toBe(200);
  });

  it("logs what it did not expect, and tells the caller nothing of it", async () => {
    const lines: string[] = [];
    const opened = site({ logger: { info: () => undefined, warn: (line) => void lines.push(line) } });
    lines.length = 0;
    const handler = invalidationHandler({ cache: opened.cache, secret: SECRET });
    const get = (name: string): string | undefined => {
      if (name === "content-type") throw new Error("inner");
      return name === "authorization" ? `Bearer ${SECRET}` : undefined;
    };
    const broken = { method: "POST", headers: { get }, url: "http://x/" };
    const response = await handler(broken as never);
    expect([response.status, JSON.stringify(await response.json())]).toEqual([
      500,
      expect.not.stringContaining("inner"),
    ]);
    expect(lines).toEqual(["graphql-cached: invalidationHandler: a request failed: inner"]);
  });
});

describe("the secret of the invalidation handler", () => {
  const expected =
    "invalidationHandler: `secret`: expected a string of at least 32 visible ASCII characters, or several, got ";
  const REFUSED: readonly (readonly [secret: unknown, got: string])[] = [
    [undefined, "none"],
    [[], "none"],
    [[undefined], "none"],
    [null, "a value of type null"],
    [7, "a value of type number"],
    ["", "one of 0 characters"],
    ["x".repeat(31), "one of 31 characters"],
    [[SECRET, "short"], "one of 5 characters"],
    [`${SECRET} ${SECRET}`, "one with other characters"],
    [`${SECRET}é`, "one with other characters"],
    [`${SECRET}\n`, "one with other characters"],
  ];

  it.each(REFUSED)("is refused as %j, so that there is no handler without one", (secret, got) => {
    const { cache }: { cache: Cache } = site();
    expect(() => invalidationHandler({ cache, secret: secret as never })).toThrow(`${expected}${got}`);
  });

  it("is required with a cache, and nothing else is an option", () => {
    const { cache }: { cache: Cache } = site();
    expect(() => invalidationHandler({ cache } as never)).toThrow(`${expected}none`);
    expect(() => invalidationHandler({ secret: SECRET } as never)).toThrow(/expected a cache/i);
    expect(() => invalidationHandler({ cache, secret: SECRET, allow: () => true } as never)).toThrow(
      /`allow`: unknown option/,
    );
  });

  it("is not in what is logged, published or thrown", async () => {
    const { cache, events }: { cache: Cache; events: CacheEvent[] } = site();
    const handler = invalidationHandler({ cache, secret: [SECRET, undefined] });
    const headers = { authorization: `bearer ${SECRET}`, "content-type": "application/json" };
    const response = await handler(new Request("http://x/", { method: "POST", headers, body: '{"tags":["a"]}' }));
    expect(response.status).toBe(200);
    expect(JSON.stringify([events, await response.text(), [...response.headers]])).not.toContain(SECRET);
  });
});
