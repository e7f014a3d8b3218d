/**
 * The bookshop that all servers of this folder serve. Its catalogue is slow and prints each load. The
 * catalogue is a file, so that several processes share the same books, as with a database.
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
    "How often this process has loaded the catalogue."
    loads: Int!
  }
  type Mutation {
    setPrice(id: ID!, cents: Int!): Book @invalidates(tags: ["Book:{$result.id}", "Books"])
  }
  interface Priced {
    cents: Int!
  }
  type Book implements Priced {
    id: ID!
    title: String!
    cents: Int!
    alike(first: Int! = 1): [Book!]! @cached(maxAge: 300, tags: ["Book:{$result[].id}"])
  }
`;

/** The schema without a cache; `applyCached` adds it. */
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

/** Writes to a temporary file and renames it, so that no process reads a partial file. */
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

/**
 * Opens a cache on the Redis at REDIS_URL, or in memory. The client fails fast, without an offline queue or
 * endless retries, because a late reply is of no use to a cache.
 */
export async function openCache(): Promise<OpenCache> {
  const { REDIS_URL, PREFIX = "shop", STORE_TIMEOUT_MS = "100" } = process.env;
  const client =
    REDIS_URL === undefined
      ? undefined
      : new Redis(REDIS_URL, { maxRetriesPerRequest: 0, enableOfflineQueue: false, lazyConnect: true });
  await client?.connect();
  const store = client === undefined ? memoryStore() : redisStore({ client });
  const storeTimeoutMs = Number(STORE_TIMEOUT_MS);
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    store,
    prefix: PREFIX,
    storage: { storeTimeoutMs },
    identify: ({ userId }) => userId,
  });
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

/** Stands in for a session. */
export const contextOf = (headers: Readonly<Record<string, string | string[] | undefined>>): Context => ({
  userId: headers["x-user"]?.toString(),
});

export const isAdmin = ({ userId }: Context): boolean => userId === "admin";

/** Prints the URL of the server and calls `stop` when the process receives SIGINT or SIGTERM. */
export function runUntilSignal(port: number, stop: () => Promise<unknown>): void {
  const end = (): void =>
    void stop()
      .catch(console.error)
      .finally(() => process.exit());
  process.once("SIGINT", end).once("SIGTERM", end);
  console.log(`The shop is at http://${HOST}:${port}/graphql. Send this query twice, then start a second process with another PORT and the same REDIS_URL and send it there:

  curl -s http://${HOST}:${port}/graphql -H 'content-type: application/json' -d '{"query":"{ books { title cents alike { title } } }"}'

Loads of the catalogue are printed below.
`);
}
