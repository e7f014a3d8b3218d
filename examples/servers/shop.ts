/**
 * What all servers of this folder serve: a book shop, whose catalogue is slow and prints how often it is asked. The catalogue is a file, so that
 * several processes sell the same books, as they would from a database.
 */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { GraphQLSchema } from "graphql";
import { type Cache, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";

export interface Context {
  readonly userId: string | undefined;
}

export interface Book {
  readonly id: string;
  readonly title: string;
  readonly cents: number;
}

const FILE = process.env.BOOKS_FILE ?? fileURLToPath(new URL("../../.data/books.json", import.meta.url));
const FIRST_BOOKS: readonly Book[] = [
  { id: "1", title: "Emma", cents: 900 },
  { id: "2", title: "Middlemarch", cents: 1200 },
  { id: "3", title: "Dracula", cents: 800 },
];

const typeDefs = /* GraphQL */ `
  type Query {
    book(id: ID!): Book @cached(maxAge: 300, tags: ["Book:{$args.id}"])
    books(first: Int! = 2, cheapest: Boolean = false): [Book!]! @cached(maxAge: 300, tags: ["Books"])
    "How often the catalogue was asked by this process."
    loads: Int!
  }
  type Mutation {
    setPrice(id: ID!, cents: Int!): Book @invalidates(tags: ["Book:{$args.id}", "Books"])
  }
  interface Priced {
    cents: Int!
  }
  type Book implements Priced {
    id: ID!
    title: String!
    cents: Int!
    alike(first: Int! = 1): [Book!]! @cached(maxAge: 300)
  }
`;

/** The schema as it would be without a cache. */
export function shopSchema(file = FILE, log: (line: string) => void = console.log): GraphQLSchema {
  let loads = 0;
  const catalogue = async (): Promise<readonly Book[]> => {
    log(`load ${++loads} of the catalogue`);
    await pause(20);
    return readBooks(file);
  };
  const resolvers = {
    Query: {
      book: async (_: unknown, { id }: { id: string }) => (await catalogue()).find((book) => book.id === id),
      books: async (_: unknown, { first, cheapest }: { first: number; cheapest: boolean | null }) => {
        const books = await catalogue();
        return (cheapest ? books.toSorted((one, other) => one.cents - other.cents) : books).slice(0, first);
      },
      loads: () => loads,
    },
    Mutation: {
      async setPrice(_: unknown, { id, cents }: { id: string; cents: number }) {
        const books = (await readBooks(file)).map((book) => (book.id === id ? { ...book, cents } : book));
        await writeBooks(file, books);
        return books.find((book) => book.id === id);
      },
    },
    Book: {
      alike: async (book: Book, { first }: { first: number }) =>
        (await catalogue()).filter(({ id }) => id !== book.id).slice(0, first),
    },
    Priced: { __resolveType: () => "Book" },
  };
  return makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers });
}

async function readBooks(file: string): Promise<readonly Book[]> {
  const text = await readFile(file, "utf8").catch(() => undefined);
  return text === undefined ? FIRST_BOOKS : JSON.parse(text);
}

/** Renamed into place, so that nobody reads half of it. */
async function writeBooks(file: string, books: readonly Book[]): Promise<void> {
  const draft = `${file}.${process.pid}`;
  await mkdir(dirname(file), { recursive: true });
  await writeFile(draft, JSON.stringify(books));
  await rename(draft, file);
}

export interface OpenCache {
  readonly cache: Cache<Context>;
  close(): Promise<void>;
}

/** On the Redis of REDIS_URL, or in memory. A cache wants answers soon or not at all: no queue while Redis is away, no endless retries. */
export async function openCache(): Promise<OpenCache> {
  const { REDIS_URL, PREFIX = "shop", STORE_TIMEOUT_MS = "100" } = process.env;
  const client =
    REDIS_URL === undefined
      ? undefined
      : new Redis(REDIS_URL, { maxRetriesPerRequest: 1, enableOfflineQueue: false, lazyConnect: true });
  await client?.connect();
  const store = client === undefined ? memoryStore() : redisStore({ client });
  const storeTimeoutMs = Number(STORE_TIMEOUT_MS);
  const cache = createCache<Context>({ store, prefix: PREFIX, storeTimeoutMs, identify: ({ userId }) => userId });
  return {
    cache,
    async close() {
      await cache.close();
      client?.disconnect();
    },
  };
}

export const PORT = Number(process.env.PORT ?? 4000);
export const HOST = "127.0.0.1";

/** An example's stand-in for a session. */
export const contextOf = (headers: Readonly<Record<string, string | string[] | undefined>>): Context => ({
  userId: headers["x-user"]?.toString(),
});

export const isAdmin = ({ userId }: Context): boolean => userId === "admin";

/** Says where the server is, and has `stop` run once the process is asked to end. */
export function responder(port: number, stop: () => Promise<unknown>): void {
  const end = (): void =>
    void stop()
      .catch(console.error)
      .finally(() => process.exit());
  process.once("SIGINT", end).once("SIGTERM", end);
  console.log(`The shop is at http://${HOST}:${port}/graphql. Ask it twice, then start it with another PORT on the same REDIS_URL and ask there:

  curl -s http://${HOST}:${port}/graphql -H 'content-type: application/json' -d '{"query":"{ books { title cents alike { title } } }"}'

What is really loaded is printed below.
`);
}
