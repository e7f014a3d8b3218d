import { createHash, randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getIntrospectionQuery, graphql } from "graphql";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { shopSchema } from "../../examples/servers/shop.js";
import { until } from "../support/redis-lab.js";
import { monitorRedis } from "../support/redis-monitor.js";
import { type Asked, type ShopProcess, startShop } from "../support/shop-process.js";

/** What a server can do besides answering. */
export interface ServerAbilities {
  readonly batches?: boolean;
  readonly persistsQueries?: boolean;
  readonly traces?: boolean;
}

/** Two processes of one example, on one Redis and one file of books. */
export interface ShopPair {
  readonly first: ShopProcess;
  readonly second: ShopProcess;
  readonly file: string;
  /** What both ask Redis for while `work` runs: the commands on keys of theirs, each with its name first. */
  commandsOf(work: () => Promise<unknown>): Promise<readonly (readonly string[])[]>;
  /** Asks both to end; answers their exit codes. */
  stop(): Promise<readonly (number | null)[]>;
}

/** What is the same under every server: tests that start two processes of the example `name`, and send HTTP. */
export function serverContract(name: string, abilities: ServerAbilities): () => ShopPair {
  let started: ShopPair | undefined;
  const pair = (): ShopPair => started as ShopPair;
  beforeAll(async () => {
    started = await startPair(name);
  }, 60_000);
  afterAll(() => started?.stop());

  sharingTests(pair);
  answerTests(pair);
  if (abilities.batches) batchTests(pair);
  if (abilities.persistsQueries) persistedTests(pair);
  if (abilities.traces) traceTests(pair);
  if (abilities.batches && abilities.traces) batchTraceTests(pair);
  return pair;
}

async function startPair(name: string): Promise<ShopPair> {
  const { host, port } = inject("redisStandalone");
  const ear = await monitorRedis({ host, port });
  const folder = await mkdtemp(join(tmpdir(), "shop-"));
  const file = join(folder, "books.json");
  const prefix = `shop-${randomUUID()}`;
  // A machine that is busy with other tests must not make a slow answer a miss.
  const STORE_TIMEOUT_MS = "5000";
  const env = { STORE_TIMEOUT_MS, REDIS_URL: `redis://${host}:${port}`, PREFIX: prefix, BOOKS_FILE: file };
  const [first, second] = await Promise.all([startShop(name, env), startShop(name, env)]);
  const end = async (): Promise<readonly (number | null)[]> => {
    const codes = await Promise.all([first.stop(), second.stop()]);
    ear.close();
    await rm(folder, { recursive: true });
    return codes;
  };
  let respond: ReturnType<typeof end> | undefined;
  return {
    first,
    second,
    file,
    commandsOf: (work) => ear.commandsOf(prefix, work),
    stop() {
      respond ??= end();
      return respond;
    },
  };
}

/** Asks until all it takes is reading, since values are stored after the answer is given; twice at least, so that a server that compiles queries has done so. */
async function warm({ commandsOf }: ShopPair, ask: () => Promise<unknown>): Promise<void> {
  let quiet = 0;
  await until("everything asked for is stored", async () => {
    const commands = await commandsOf(ask);
    quiet = commands.every(([command]) => command === "mget") ? quiet + 1 : 0;
    return quiet === 2;
  });
}

const setPrice = (id: number, cents: number): Asked => ({
  query: "mutation Set($id: ID!, $cents: Int!) { setPrice(id: $id, cents: $cents) { cents } }",
  variables: { id, cents },
});

function sharingTests(pair: () => ShopPair): void {
  it("what the first has loaded the second answers without loading", async () => {
    const { first, second } = pair();
    const asked = { query: "{ book(id: 1) { title cents alike { title } } }" };
    const before = [await first.loads(), await second.loads()];
    const answer = await first.ask(asked);
    expect(answer).toEqual({ data: { book: { title: "Emma", cents: 900, alike: [{ title: "Middlemarch" }] } } });
    expect(await second.ask(asked)).toEqual(answer);
    // Its book and what is like it.
    expect([await first.loads(), await second.loads()]).toEqual([(before[0] ?? 0) + 2, before[1]]);
  });

  it("a mutation in one is seen by the next request to each, however often the same query was sent before", async () => {
    const { first, second } = pair();
    const asked = { query: "query Price($id: ID!) { book(id: $id) { cents } }", variables: { id: 2 } };
    for (const cents of [1300, 1400]) {
      // Often enough that a server that compiles queries has done so.
      for (let nth = 0; nth < 5; nth++) for (const shop of [first, second]) await shop.ask(asked);
      expect(await second.ask(setPrice(2, cents))).toEqual({ data: { setPrice: { cents } } });
      for (const shop of [first, second]) expect(await shop.ask(asked)).toEqual({ data: { book: { cents } } });
    }
  });

  it("a request reads a key once, however many of its fields ask for it, and when", async () => {
    const { first, commandsOf } = pair();
    const before = await first.loads();
    const twice = { query: "{ one: book(id: 3) { title } other: book(id: 3) { cents } }" };
    for (let nth = 0; nth < 3; nth++) await first.ask(twice);
    expect(await first.loads()).toBe(before + 1);
    // What is like Dracula is Emma, and what is like her is Middlemarch, and what is like that is Emma again.
    const around = { query: "{ book(id: 3) { alike { alike { alike { alike { title } } } } } }" };
    await warm(pair(), () => first.ask(around));
    const reads = await commandsOf(() => first.ask(around));
    expect(reads.map(([command]) => command)).toEqual(["mget", "mget", "mget", "mget"]);
    expect(new Set(reads.map(String)).size).toBe(4);
  });
}

/** One way of writing each thing that a query language has. */
const QUERIES: Readonly<Record<string, Asked>> = {
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

function answerTests(pair: () => ShopPair): void {
  it.each(Object.keys(QUERIES))("the answer to a query with %s is that of a schema without a cache", async (title) => {
    const { first, second, file } = pair();
    const { query: source = "", variables: variableValues, operationName } = QUERIES[title] as Asked;
    const plain = await graphql({ schema: shopSchema(file, () => undefined), source, variableValues, operationName });
    for (const shop of [first, first, first, second, second, second])
      expect(JSON.stringify((await shop.ask(QUERIES[title] as Asked)).data)).toBe(JSON.stringify(plain.data));
  });

  it("an error is told as without a cache", async () => {
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

  it("operations of one HTTP request are answered in order, and their warm keys are one MGET", async () => {
    const { first, commandsOf } = pair();
    expect((await first.askAll(batch)).map((answer) => answer.data)).toEqual(data);
    await warm(pair(), () => first.askAll(batch));
    const reads = await commandsOf(() => first.askAll(batch));
    expect(reads.map(([command]) => command)).toEqual(["mget"]);
  });

  it("operations of one HTTP request remember nothing for each other", async () => {
    const { first, second } = pair();
    const asked = { query: "{ book(id: 1) { cents } }" };
    const cents = async (): Promise<unknown[]> => (await first.askAll([asked, asked])).map((answer) => answer.data);
    await cents();
    await second.ask(setPrice(1, 950));
    expect(await cents()).toEqual([{ book: { cents: 950 } }, { book: { cents: 950 } }]);
  });
}

function persistedTests(pair: () => ShopPair): void {
  it("a query that is known by its hash is answered from the cache like any other", async () => {
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
  const asked = { query: "{ a: book(id: 1) { id } b: book(id: 2) { id } }", extensions: { cached: true } };

  it("extensions.cached says what each field did, to allowed callers who ask", async () => {
    const { first } = pair();
    await warm(pair(), () => first.ask(asked));
    expect((await first.ask(asked, "admin")).extensions?.cached).toEqual({ "Query.book": { hit: 2 } });
    expect((await first.ask(asked, "alice")).extensions?.cached).toBeUndefined();
    expect((await first.ask({ query: asked.query }, "admin")).extensions?.cached).toBeUndefined();
  });

  it("whatever else is asked for in extensions, the answer comes", async () => {
    const { first } = pair();
    for (const extensions of [{ cached: "yes" }, { cached: null }, {}])
      expect((await first.ask({ ...asked, extensions }, "admin")).data).toEqual({ a: { id: "1" }, b: { id: "2" } });
  });
}

function batchTraceTests(pair: () => ShopPair): void {
  it("operations of one HTTP request each have a trace of their own", async () => {
    const { first } = pair();
    const [book, books] = ["{ book(id: 1) { id } }", "{ books { id } }"];
    const extensions = { cached: true };
    for (const query of [book, books]) await warm(pair(), () => first.ask({ query }));
    const answers = await first.askAll(
      [{ query: book, extensions }, { query: book }, { query: books, extensions }],
      "admin",
    );
    expect(answers.map((answer) => answer.extensions?.cached)).toEqual([
      { "Query.book": { hit: 1 } },
      undefined,
      { "Query.books": { hit: 1 } },
    ]);
  });
}
