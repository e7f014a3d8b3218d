import { createHash, randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getIntrospectionQuery, graphql } from "graphql";
import { afterAll, beforeAll, expect, it } from "vitest";
import { shopSchema } from "../../examples/servers/shop.js";
import { PAGE_HEADERS } from "../support/inspector-calls.js";
import { until } from "../support/redis-lab.js";
import { monitorRedis } from "../support/redis-monitor.js";
import { sharedServer } from "../support/shared-servers.js";
import { type ShopProcess, type ShopRequest, startShop } from "../support/shop-process.js";

/** Optional features of a server. */
export interface ServerAbilities {
  /** Whether the inspector page is at /cache. */
  readonly inspects?: boolean;
  readonly batches?: boolean;
  readonly persistsQueries?: boolean;
  readonly traces?: boolean;
}

/** Two processes of one example that share a Redis and a file of books. */
export interface ShopPair {
  readonly first: ShopProcess;
  readonly second: ShopProcess;
  readonly file: string;
  /** Returns the Redis commands on keys of the pair while `work` runs, each with its name first. */
  commandsOf(work: () => Promise<unknown>): Promise<readonly (readonly string[])[]>;
  /** Stops both processes and returns their exit codes. */
  stop(): Promise<readonly (number | null)[]>;
}

/** Registers the tests that every server must pass, on two processes of the example `name` over HTTP. */
export function serverContract(name: string, abilities: ServerAbilities): () => ShopPair {
  let started: ShopPair | undefined;
  const pair = (): ShopPair => started as ShopPair;
  beforeAll(async () => {
    started = await startPair(name);
  }, 60_000);
  afterAll(() => started?.stop());

  sharingTests(pair);
  resultTests(pair);
  if (abilities.batches) batchTests(pair);
  if (abilities.persistsQueries) persistedTests(pair);
  if (abilities.traces) traceTests(pair);
  if (abilities.batches && abilities.traces) batchTraceTests(pair);
  if (abilities.inspects) inspectorTests(pair);
  return pair;
}

async function startPair(name: string): Promise<ShopPair> {
  const { host, port } = await sharedServer("redisStandalone");
  const monitor = await monitorRedis({ host, port });
  const folder = await mkdtemp(join(tmpdir(), "shop-"));
  const file = join(folder, "books.json");
  const prefix = `shop-${randomUUID()}`;
  // High enough that a slow reply on a busy machine does not become a miss.
  const STORE_TIMEOUT_MS = "5000";
  const env = { STORE_TIMEOUT_MS, REDIS_URL: `redis://${host}:${port}`, PREFIX: prefix, BOOKS_FILE: file };
  const [first, second] = await Promise.all([startShop(name, env), startShop(name, env)]);
  const stopPair = async (): Promise<readonly (number | null)[]> => {
    const codes = await Promise.all([first.stop(), second.stop()]);
    monitor.close();
    await rm(folder, { recursive: true });
    return codes;
  };
  let stopped: ReturnType<typeof stopPair> | undefined;
  return {
    first,
    second,
    file,
    commandsOf: (work) => monitor.requestCommandsOf(prefix, work),
    stop() {
      stopped ??= stopPair();
      return stopped;
    },
  };
}

/**
 * Repeats `ask` until it only reads, because values are stored after the response. Runs at least twice,
 * so that servers that compile queries have done so.
 */
async function warm({ commandsOf }: ShopPair, ask: () => Promise<unknown>): Promise<void> {
  let quiet = 0;
  await until("all values are stored", async () => {
    const commands = await commandsOf(ask);
    quiet = commands.every(([command]) => command === "mget") ? quiet + 1 : 0;
    return quiet === 2;
  });
}

function inspectorTests(pair: () => ShopPair): void {
  it("serves the inspector page to everyone, and its data to operators", async () => {
    const { first } = pair();
    await first.ask({ query: "{ book(id: 1) { title } }" });
    const url = new URL("/cache", first.url);
    const page = await fetch(url);
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    const ask = async (user: string): Promise<unknown> => {
      const body = JSON.stringify({ operation: "policies" });
      return (await fetch(url, { method: "POST", headers: { ...PAGE_HEADERS, "x-user": user }, body })).json();
    };
    const books = expect.objectContaining({ coordinate: "Query.book" });
    expect(await ask("admin")).toMatchObject({ data: { policies: expect.arrayContaining([books]) } });
    expect(await ask("ada")).toMatchObject({ error: { code: "CACHED_INSPECTION_DENIED" } });
  });
}

const setPrice = (id: number, cents: number): ShopRequest => ({
  query: "mutation Set($id: ID!, $cents: Int!) { setPrice(id: $id, cents: $cents) { cents } }",
  variables: { id, cents },
});

function sharingTests(pair: () => ShopPair): void {
  it("serves what the other process has loaded without loading it again", async () => {
    const { first, second } = pair();
    const request = { query: "{ book(id: 1) { title cents alike { title } } }" };
    const before = [await first.loads(), await second.loads()];
    const answer = await first.ask(request);
    expect(answer).toEqual({ data: { book: { title: "Emma", cents: 900, alike: [{ title: "Middlemarch" }] } } });
    expect(await second.ask(request)).toEqual(answer);
    // Two loads: the book and its similar books.
    expect([await first.loads(), await second.loads()]).toEqual([(before[0] ?? 0) + 2, before[1]]);
  });

  it("returns the result of a mutation to the next request in both processes, however often the query ran before", async () => {
    const { first, second } = pair();
    const request = {
      query: "query Price($id: ID!) { book(id: $id) { cents } other: book(id: 1) { alike { cents } } }",
      variables: { id: 2 },
    };
    for (const cents of [1300, 1400]) {
      // Often enough that servers that compile queries have done so.
      for (let nth = 0; nth < 5; nth++) for (const shop of [first, second]) await shop.ask(request);
      expect(await second.ask(setPrice(2, cents))).toEqual({ data: { setPrice: { cents } } });
      const data = { book: { cents }, other: { alike: [{ cents }] } };
      for (const shop of [first, second]) expect(await shop.ask(request)).toEqual({ data });
    }
  });

  it("loads a key once per request, however many of its fields use it, and reads no warm key", async () => {
    const { first, commandsOf } = pair();
    const before = await first.loads();
    const twice = { query: "{ one: book(id: 3) { title } other: book(id: 3) { cents } }" };
    for (let nth = 0; nth < 3; nth++) await first.ask(twice);
    expect(await first.loads()).toBe(before + 1);
    // Similar to Dracula is Emma, similar to Emma is Middlemarch, and similar to Middlemarch is Emma again.
    const around = { query: "{ book(id: 3) { alike { alike { alike { alike { title } } } } } }" };
    await warm(pair(), () => first.ask(around));
    const reads = await commandsOf(() => first.ask(around));
    // All of it is in memory, which the head of the clock confirms.
    expect(reads).toEqual([]);
  });
}

/** One request for each feature of the query language. */
const QUERIES: Readonly<Record<string, ShopRequest>> = {
  aliases: { query: "{ a: book(id: 1) { name: title } b: book(id: 2) { id title } c: book(id: 99) { id } }" },
  fragments: {
    query: `query { book(id: 1) { ...Basics } books { ...Basics ... on Priced { cents } __typename } }
      fragment Basics on Book { id alike(first: 2) { ...Title } }
      fragment Title on Book { title }`,
  },
  variables: {
    query: `query Books($first: Int!, $cheapest: Boolean = true, $with: Boolean!) {
      books(first: $first, cheapest: $cheapest) { title cents @include(if: $with) alike @skip(if: $with) { id } }
    }`,
    variables: { first: 3, with: true },
  },
  "other variables": {
    query: "query Books($first: Int, $cheapest: Boolean) { books(first: $first, cheapest: $cheapest) { title } }",
    variables: { first: 1, cheapest: null },
  },
  "a named operation": { query: "query A { books { id } } query B { book(id: 1) { id } }", operationName: "B" },
  introspection: { query: getIntrospectionQuery() },
};

function resultTests(pair: () => ShopPair): void {
  it.each(Object.keys(QUERIES))(
    "returns the same data as a schema without a cache for a query with %s",
    async (title) => {
      const { first, second, file } = pair();
      const { query: source = "", variables: variableValues, operationName } = QUERIES[title] as ShopRequest;
      const plain = await graphql({ schema: shopSchema(file, () => undefined), source, variableValues, operationName });
      for (const shop of [first, first, first, second, second, second])
        expect(JSON.stringify((await shop.ask(QUERIES[title] as ShopRequest)).data)).toBe(JSON.stringify(plain.data));
    },
  );

  it("returns the same errors as a schema without a cache", async () => {
    const { first } = pair();
    const { data, errors } = await first.ask({ query: "{ book(id: 1) { isbn } }" });
    expect(data ?? null).toBeNull();
    expect(errors?.map(({ message }) => message)).toEqual([
      expect.stringMatching(/Cannot query field "isbn"|validation/),
    ]);
  });
}

function batchTests(pair: () => ShopPair): void {
  const batch = [
    { query: "{ book(id: 1) { title } }" },
    { query: "query Both($id: ID!) { book(id: $id) { title } books { id } }", variables: { id: 2 } },
    { query: "{ book(id: 1) { title } }" },
  ];
  const data = [
    { book: { title: "Emma" } },
    { book: { title: "Middlemarch" }, books: [{ id: "1" }, { id: "2" }] },
    { book: { title: "Emma" } },
  ];

  it("answers batched operations in order and reads no warm key", async () => {
    const { first, commandsOf } = pair();
    expect((await first.askAll(batch)).map((answer) => answer.data)).toEqual(data);
    await warm(pair(), () => first.askAll(batch));
    const reads = await commandsOf(() => first.askAll(batch));
    expect(reads).toEqual([]);
  });

  it("does not memoize values across HTTP requests of batched operations", async () => {
    const { first, second } = pair();
    const request = { query: "{ book(id: 1) { cents } }" };
    const cents = async (): Promise<unknown[]> => (await first.askAll([request, request])).map((answer) => answer.data);
    await cents();
    await second.ask(setPrice(1, 950));
    expect(await cents()).toEqual([{ book: { cents: 950 } }, { book: { cents: 950 } }]);
  });
}

function persistedTests(pair: () => ShopPair): void {
  it("serves persisted queries from the cache", async () => {
    const { first, second } = pair();
    const query = "query Known($id: ID!) { book(id: $id) { title } }";
    const persistedQuery = { version: 1, sha256Hash: createHash("sha256").update(query).digest("hex") };
    const byHash = { extensions: { persistedQuery }, variables: { id: 3 } };
    for (const shop of [first, second]) {
      expect((await shop.ask(byHash)).errors?.[0]?.message).toBe("PersistedQueryNotFound");
      expect((await shop.ask({ ...byHash, query })).data).toEqual({ book: { title: "Dracula" } });
      const before = await shop.loads();
      for (let nth = 0; nth < 3; nth++) expect((await shop.ask(byHash)).data).toEqual({ book: { title: "Dracula" } });
      expect(await shop.loads()).toBe(before);
    }
  });
}

function traceTests(pair: () => ShopPair): void {
  const request = { query: "{ a: book(id: 1) { id } b: book(id: 2) { id } }", extensions: { cached: true } };

  it("reports the outcome of each field in extensions.cached to allowed callers on request", async () => {
    const { first } = pair();
    await warm(pair(), () => first.ask(request));
    expect((await first.ask(request, "admin")).extensions?.cached).toEqual({ "Query.book": { hit: 2 } });
    expect((await first.ask(request, "alice")).extensions?.cached).toBeUndefined();
    expect((await first.ask({ query: request.query }, "admin")).extensions?.cached).toBeUndefined();
  });

  it("ignores malformed values of extensions.cached", async () => {
    const { first } = pair();
    for (const extensions of [{ cached: "yes" }, { cached: null }, {}])
      expect((await first.ask({ ...request, extensions }, "admin")).data).toEqual({ a: { id: "1" }, b: { id: "2" } });
  });
}

function batchTraceTests(pair: () => ShopPair): void {
  it("reports a separate trace for each batched operation", async () => {
    const { first } = pair();
    const [book, books] = ["{ book(id: 1) { id } }", "{ books { id } }"];
    const extensions = { cached: true };
    for (const query of [book, books]) await warm(pair(), () => first.ask({ query }));
    const results = await first.askAll(
      [{ query: book, extensions }, { query: book }, { query: books, extensions }],
      "admin",
    );
    expect(results.map((answer) => answer.extensions?.cached)).toEqual([
      { "Query.book": { hit: 1 } },
      undefined,
      { "Query.books": { hit: 1 } },
    ]);
  });
}
