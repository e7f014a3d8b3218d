import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { execute, type GraphQLSchema, parse, validate } from "graphql";
import {
  applyCached,
  type Cache,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  memoryStore,
  type ResponsesOptions,
} from "graphql-cached";
import { expect } from "vitest";
import { seededRandom } from "../../bench/seeded-random.js";
import { partsOf } from "../../src/core/parts.js";

const QUERIES_OF_A_SCHEMA = 40;
const ITEMS = 6;
const USERS = [undefined, "ann", "bob"];
const LOCALES = ["en", "de"];
const SCOPES: readonly ResponsesOptions[] = [
  { scope: "PUBLIC" },
  { scope: "PRIVATE" },
  { scope: "PRIVATE", guests: "PUBLIC" },
];
const quiet = { info: () => undefined, warn: () => undefined };

export interface Context {
  readonly user: string | undefined;
  readonly locale: string;
}

export type Random = () => number;
const int = (random: Random, count: number): number => Math.floor(random() * count);
const pick = <T>(random: Random, from: readonly T[]): T => from[int(random, from.length)] as T;
const chance = (random: Random, percent: number): boolean => random() * 100 < percent;
const some = <T>(random: Random, from: readonly T[]): T[] => from.filter(() => chance(random, 55));

/** Versions of items, which mutations change. */
class World {
  readonly versions = Array.from({ length: ITEMS }, () => 0);
  item(id: number): object {
    return { id, title: `Item ${id}`, version: this.versions[id], friendId: (id + 1) % ITEMS };
  }
}

/** A random choice of what is cached, hinted and PRIVATE. Every field that depends on an item has its tag if it is cached. */
function typeDefsOf(random: Random): string {
  const hint = (more = ""): string =>
    chance(random, 85)
      ? ` @cacheControl(maxAge: ${5 + int(random, 60)}${more})`
      : more === ""
        ? ""
        : ` @cacheControl(maxAge: 30${more})`;
  const cached = (settings: string): string =>
    chance(random, 70)
      ? ` @cached(maxAge: ${5 + int(random, 60)}, ${settings}${chance(random, 40) ? `, staleWhileRevalidate: 0, jitter: 0.3` : ""})`
      : "";
  // What is hinted and not cached reads items through the loader, which is always invalidated.
  return /* GraphQL */ `
    enum CacheControlScope { PUBLIC PRIVATE }
    directive @cacheControl(maxAge: Int, scope: CacheControlScope, inheritMaxAge: Boolean) on FIELD_DEFINITION | OBJECT
    type Query {
      item(id: ID!): Item${cached(`tags: ["Item:{$args.id}"]`)}${hint()}
      items(from: Int = 1, count: Int = 2): [Item!]${cached(`tags: ["Item:{$result[].id}"]`)}${hint()}
      greeting: String${` @cached(maxAge: ${5 + int(random, 60)}, key: ["$context.locale"])`}${hint()}
      mine: String${cached("scope: PRIVATE")} @cacheControl(maxAge: ${5 + int(random, 60)}, scope: PRIVATE)
      viewed: Int${hint()}
      hello: String${hint()}
    }
    type Item${hint()} {
      id: ID! title: String version: Int
      friend: Item${cached(`tags: ["Item:{$source.friendId}"], key: ["$source.friendId"]`)}${hint()}
      own: Int${cached(`tags: ["Item:{$source.id}"]`)}${hint()}
      secret: String${chance(random, 30) ? " @cached(maxAge: 20, scope: PRIVATE)" : ""} @cacheControl(maxAge: 20, scope: PRIVATE)
    }
  `;
}

function resolversOf(load: (id: number, context: Context) => Promise<unknown>): object {
  return {
    Query: {
      item: (_: unknown, { id }: { id: string }, context: Context) => load(Number(id) % ITEMS, context),
      items: (_: unknown, { from, count }: { from: number; count: number }, context: Context) =>
        Promise.all(Array.from({ length: count }, (__, nth) => load((from + nth) % ITEMS, context))),
      greeting: (_: unknown, __: unknown, { locale }: Context) => (locale === "de" ? "Hallo" : "Hello"),
      mine: (_: unknown, __: unknown, { user }: Context) => `of ${user}`,
      // Nothing in the schema says that it depends on who asks.
      hello: (_: unknown, __: unknown, { user }: Context) => `Hello ${user}`,
      viewed: async (_: unknown, __: unknown, context: Context) =>
        ((await load(0, context)) as { version: number }).version,
    },
    Item: {
      friend: ({ friendId }: { friendId: number }, _: unknown, context: Context) => load(friendId, context),
      own: async ({ id }: { id: number }, _: unknown, context: Context) =>
        ((await load(Number(id), context)) as { version: number }).version,
      secret: ({ id }: { id: number }, _: unknown, { user }: Context) => `${id} of ${user}`,
    },
  };
}

interface RandomQuery {
  readonly source: string;
  readonly variables: Readonly<Record<string, unknown>>;
}

function queryOf(random: Random): RandomQuery {
  const variables: Record<string, unknown> = {};
  const declared: string[] = [];
  const fragments: string[] = [];
  const value = (type: string, given: number): string => {
    if (chance(random, 50)) return String(given);
    const name = `v${declared.length}`;
    declared.push(`$${name}: ${type}`);
    variables[name] = type === "ID!" && chance(random, 50) ? String(given) : given;
    return `$${name}`;
  };
  const selection = (depth: number): string => {
    const fields = ["id", ...some(random, ["title", "version", "own", "a: version"])];
    if (chance(random, 12)) fields.push("secret");
    if (depth < 2 && chance(random, 50)) fields.push(`friend ${selection(depth + 1)}`);
    const body = `{ ${fields.join(" ")} }`;
    if (!chance(random, 20)) return body;
    const name = `F${fragments.length}`;
    fragments.push(`fragment ${name} on Item ${body}`);
    return `{ id ...${name} }`;
  };
  const roots: string[] = [];
  for (let nth = 0; nth < 1 + int(random, 3); nth++) {
    const alias = `r${nth}`;
    const kind = int(random, 11);
    if (kind < 4) roots.push(`${alias}: item(id: ${value("ID!", int(random, ITEMS))}) ${selection(0)}`);
    else if (kind < 7)
      roots.push(
        `${alias}: items(from: ${value("Int", int(random, ITEMS))}, count: ${value("Int", int(random, 3))}) ${selection(0)}`,
      );
    else if (kind === 7) roots.push(`${alias}: greeting`);
    else if (kind === 8) roots.push(`${alias}: viewed`);
    else if (kind === 9) roots.push(`${alias}: hello`);
    else roots.push(`${alias}: mine`);
  }
  const head = declared.length === 0 ? "query" : `query (${declared.join(", ")})`;
  return { source: [`${head} { ${roots.join(" ")} }`, ...fragments].join("\n"), variables };
}

const withOtherVariables = (random: Random, { source, variables }: RandomQuery): RandomQuery => ({
  source,
  variables: Object.fromEntries(Object.keys(variables).map((name) => [name, int(random, 3)])),
});

/** The same operation, in which fragments that contain no others select something else. */
const withOtherFragments = (random: Random, { source, variables }: RandomQuery): RandomQuery => ({
  source: source.replaceAll(
    /^(fragment \w+ on Item) [^.\n]*$/gm,
    (_, start: string) => `${start} { id ${some(random, ["title", "version", "a: version"]).join(" ")} }`,
  ),
  variables,
});

export interface Process {
  readonly cache: Cache<Context>;
  readonly schema: GraphQLSchema;
}

/** Changes an item, and invalidates what is made of it in one of all ways. */
async function change(random: Random, world: World, { cache }: Process): Promise<void> {
  const id = int(random, ITEMS);
  world.versions[id] = (world.versions[id] ?? 0) + 1;
  const byTag = (): Promise<void> => cache.invalidateTags([`Item:${id}`]);
  const whole = async (): Promise<void> => {
    await cache.invalidate({ loader: "Item" });
    const { rules } = partsOf(cache, "test");
    for (const coordinate of rules.fields.keys()) await cache.invalidate({ coordinate });
  };
  const byEntry = async (): Promise<void> => {
    const { rules } = partsOf(cache, "test");
    const has = (coordinate: string): boolean => rules.fields.has(coordinate);
    await cache.invalidate({ loader: "Item", id });
    if (has("Query.item")) await cache.invalidate({ coordinate: "Query.item", args: { id } });
    if (has("Item.own")) await cache.invalidate({ coordinate: "Item.own", source: { id } });
    if (has("Item.friend")) await cache.invalidate({ coordinate: "Item.friend", source: { friendId: id } });
    if (has("Query.items")) await cache.invalidate({ coordinate: "Query.items" });
  };
  await pick(random, [byTag, byTag, byEntry, byEntry, whole, () => cache.clear()])();
}

/** What the two processes of one random schema share. */
export interface Shared {
  /** Returns the options of the cache of one process. */
  options(random: Random): Pick<CacheOptions<Context>, "store" | "prefix" | "testing">;
  /** Lets time pass. */
  advance(ms: number): Promise<void>;
  /** Resolves when everything that has begun is stored. */
  settle(caches: readonly Cache<Context>[]): Promise<void>;
}

/** A memory store, on a clock that the test moves. */
export function sharedMemory(): Shared {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  return {
    options: (random) => ({ store, testing: { clock, random } }),
    advance: (ms) => clock.advance(ms),
    settle,
  };
}

export interface Differences {
  readonly asked: number;
  readonly differing: number;
  /** Of stored responses. */
  readonly hits: number;
  /** Of the differences, in words. */
  readonly first: string;
}

/**
 * Asks random queries in two processes, and returns how many answers differ from those without a cache. `queries`: how many different
 * ones, each five times. `endsAtFirst`: whether one difference is enough.
 */
export async function differences(
  seed: number,
  queries: number,
  prepare: (process: Process) => void = () => undefined,
  share: () => Shared = sharedMemory,
  endsAtFirst = false,
): Promise<Differences> {
  const random = seededRandom(seed);
  let [asked, differing, hits, first] = [0, 0, 0, ""];
  const isOver = (): boolean => endsAtFirst && differing > 0;
  for (let done = 0; done < queries && !isOver(); done += QUERIES_OF_A_SCHEMA) {
    const world = new World();
    const shared = share();
    const typeDefs = typeDefsOf(random);
    const responses = pick(random, SCOPES);
    const start = (): Process => {
      const cache = createCache<Context>({
        defaultScope: "PUBLIC",
        ...shared.options(random),
        logger: quiet,
        identify: ({ user }) => user,
        onEvent: (event) => {
          if (event.name === "entry.served" && event.coordinate === "responses" && event.outcome === "hit") hits++;
        },
      });
      const items = cache.loader<number, unknown>({
        name: "Item",
        maxAge: 30,
        tags: (id) => [`Item:${id}`],
        batch: async (ids) => ids.map((id) => world.item(id)),
      });
      const resolvers = resolversOf((id, context) => items(context).load(id)) as never;
      const process = {
        cache,
        schema: applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache),
      };
      prepare(process);
      return process;
    };
    const plainResolvers = resolversOf(async (id) => world.item(id)) as never;
    const plain = makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers: plainResolvers });
    const processes = [start(), start()];
    const known: RandomQuery[] = [];
    const ask = async (query: RandomQuery): Promise<void> => {
      const process = pick(random, processes);
      const context: Context = { user: pick(random, USERS), locale: pick(random, LOCALES) };
      const document = parse(query.source);
      const args = { document, variableValues: query.variables };
      expect(validate(plain, document), query.source).toEqual([]);
      const expected = JSON.stringify(await execute({ ...args, schema: plain, contextValue: { ...context } }));
      const given = { ...args, schema: process.schema, contextValue: { ...context } };
      const answer = await process.cache.execute(given, { ...responses });
      asked++;
      if (JSON.stringify(answer) === expected) return;
      differing++;
      first ||= `${JSON.stringify(responses)}\n${typeDefs}\n${query.source}\n${JSON.stringify([query.variables, context, answer])}\nexpected ${expected}`;
    };
    for (let nth = 0; nth < QUERIES_OF_A_SCHEMA && !isOver(); nth++) {
      const query = queryOf(random);
      known.push(query);
      for (let time = 0; time < 5; time++) {
        if (chance(random, 15)) await change(random, world, pick(random, processes));
        if (chance(random, 15)) await shared.advance(int(random, 30_000));
        const asking = [
          ask(query),
          ...(chance(random, 40) ? [ask(withOtherVariables(random, pick(random, known)))] : []),
          ...(chance(random, 20) ? [ask(withOtherFragments(random, query))] : []),
        ];
        await Promise.all(asking);
        await shared.settle(processes.map(({ cache }) => cache));
      }
    }
    await Promise.all(processes.map(({ cache }) => cache.close()));
  }
  return { asked, differing, hits, first };
}
