import { Session } from "node:inspector/promises";
import { makeExecutableSchema } from "@graphql-tools/schema";
import {
  execute,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  OverlappingFieldsCanBeMergedRule,
  parse,
  specifiedRules,
  type ValidationRule,
  validate,
} from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache } from "graphql-cached";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { variablesOf } from "../../support/graphql-17.js";

/** Requests of about 100 kB, each with as much as fits of one thing that a client can multiply: see SECURITY.md. */

const TEXT = "x".repeat(10_000);
const typeDefs = [
  cachedTypeDefs,
  /* GraphQL */ `
    scalar Any
    type Query {
      item(id: ID, text: String, list: [ID!]): Item @cached(maxAge: 60)
      selected: Item @cached(maxAge: 60, key: ["$selection"])
      none(id: ID): Item @cached(maxAge: 60, key: ["$args", "$selection"])
      items(count: Int): [Item] @cached(maxAge: 60)
      find(input: Any): Int @cached(maxAge: 60)
      tagged(a: [ID!], b: [ID!]): Int @cached(maxAge: 60, tags: ["T:{$args.a[]}:{$args.b[]}"])
      looked(list: [Any]): Item @cached(maxAge: 60, key: ["$args", "$selection"])
    }
    type Item { id: ID self: Item text: String part(of: Int): ID name: String @cached(maxAge: 60) }
    type Mutation { change(a: [ID!], b: [ID!]): Int @invalidates(tags: ["T:{$args.a[]}:{$args.b[]}"]) }
  `,
];
const itemOf = (id: unknown): object => ({ id, text: TEXT });
const resolvers = {
  Query: {
    item: (_: unknown, { id }: { id: string }) => itemOf(id),
    selected: () => itemOf(1),
    none: () => null,
    items: (_: unknown, { count }: { count: number }) =>
      Array.from({ length: count }, (_, id) => ({ id, text: "text" })),
    find: () => 1,
    tagged: () => 1,
    looked: (_: unknown, __: unknown, ___: unknown, info: GraphQLResolveInfo) => (
      Object.values(variablesOf(info)), null
    ),
  },
  Item: { name: ({ id }: { id: string }) => `name of ${id}` },
  Mutation: { change: () => 1 },
};

const session = new Session();
const plain = makeExecutableSchema({ typeDefs, resolvers });

/** An empty cache, and the schema with it. */
function emptyCache(): { readonly cache: Cache; readonly cached: GraphQLSchema } {
  const cache = createCache({ defaultScope: "PUBLIC", logger: { info: () => undefined, warn: () => undefined } });
  onTestFinished(() => cache.close());
  return { cache, cached: applyCached(plain, cache) };
}

beforeAll(async () => {
  session.connect();
  await session.post("Profiler.enable");
});
afterAll(() => session.disconnect());

interface Work {
  /** Calls of functions, besides those of graphql-js's parser. */
  readonly calls: number;
  readonly allocatedBytes: number;
}

interface Allocations {
  readonly selfSize: number;
  readonly children: readonly Allocations[];
}
const bytesOf = ({ selfSize, children }: Allocations): number =>
  children.reduce((sum, child) => sum + bytesOf(child), selfSize);

/** Executes a request, from the JSON of its body, and counts what V8 does for it. */
async function workOf(schema: GraphQLSchema, { source, variables = {}, rules }: WorstRequest): Promise<Work> {
  const body = JSON.stringify({ query: source, variables });
  const allObjects = { includeObjectsCollectedByMajorGC: true, includeObjectsCollectedByMinorGC: true };
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  await session.post("HeapProfiler.startSampling", { samplingInterval: 32_768, ...allObjects });
  const request = JSON.parse(body) as { readonly query: string; readonly variables: Readonly<Record<string, unknown>> };
  const document = parse(request.query);
  const invalid = validate(schema, document, rules);
  const { errors } = await execute({ schema, document, variableValues: request.variables, contextValue: {} });
  const { profile } = await session.post("HeapProfiler.stopSampling");
  const { result } = await session.post("Profiler.takePreciseCoverage");
  await session.post("Profiler.stopPreciseCoverage");
  // A request that is refused would cost the same with any cache.
  expect([invalid, errors]).toEqual([[], undefined]);
  const functions = result
    .filter(({ url }) => !url.includes("graphql/language/"))
    .flatMap((script) => script.functions);
  const calls = functions.reduce((sum, { ranges }) => sum + (ranges[0]?.count ?? 0), 0);
  return { calls, allocatedBytes: bytesOf(profile.head) };
}

interface WorstRequest {
  readonly source: string;
  readonly variables?: Readonly<Record<string, unknown>>;
  /** Default: all of graphql-js. */
  readonly rules?: readonly ValidationRule[];
}

const WITHOUT_OVERLAPS = specifiedRules.filter((rule) => rule !== OverlappingFieldsCanBeMergedRule);

/** Returns as many parts as fit. */
function parts(bytes: number, part: (nth: number) => string): string {
  const all: string[] = [];
  for (let length = 0; length < bytes; length += (all.at(-1) as string).length + 1) all.push(part(all.length));
  return all.join(" ");
}
/** A query of as many parts as fit. */
const querying = (part: (nth: number) => string, bytes = 100_000): WorstRequest => ({
  source: `{ ${parts(bytes, part)} }`,
});
const many = (count: number, part: (nth: number) => string): string =>
  Array.from({ length: count }, (_, nth) => part(nth)).join(" ");
const ids = (count: number): string[] => Array.from({ length: count }, (_, nth) => String(nth));
const lists = { a: ids(8_000), b: ids(8_000) };
const fragments = Array.from({ length: 60 }, (_, nth) => {
  const next = `...F${nth + 1}`;
  return `fragment F${nth} on Item { id ${nth === 59 ? "" : `${next} ${next}`} }`;
});

it.each<[string, WorstRequest]>([
  ["aliases of one value", querying((n) => `a${n}: item(id: 1) { id }`)],
  ["aliases of a large value", querying((n) => `a${n}: item(id: 1) { text }`)],
  ["aliases whose keys have a selection", querying((n) => `a${n}: selected { id }`)],
  ["aliases below a cached field", { source: `{ item(id: 1) { ${parts(100_000, (n) => `a${n}: id`)} } }` }],
  [
    "names below a cached field",
    {
      source: `{ item(id: 1) { ${parts(70_000, () => "id text")} } }`,
      // It compares names with each other, or, in newer versions, refuses so many.
      rules: WITHOUT_OVERLAPS,
    },
  ],
  [
    "aliases with a large variable",
    {
      source: `query ($text: String) { ${parts(50_000, (n) => `a${n}: item(id: ${n}, text: $text) { id }`)} }`,
      variables: { text: "x".repeat(50_000) },
    },
  ],
  [
    "lists that one tag combines",
    { source: "query ($a: [ID!], $b: [ID!]) { tagged(a: $a, b: $b) }", variables: lists },
  ],
  [
    "lists that one invalidation combines",
    { source: "mutation ($a: [ID!], $b: [ID!]) { change(a: $a, b: $b) }", variables: lists },
  ],
])(
  "%s cost at most twice the calls and three times the bytes of the server without the cache",
  async (_what, request) => {
    const { cache, cached } = emptyCache();
    const without = await workOf(plain, request);
    for (const state of ["miss", "hit"]) {
      const work = await workOf(cached, request);
      await cache.settled();
      expect(work.calls / without.calls, `calls of a ${state}`).toBeLessThan(2);
      expect(work.allocatedBytes / without.allocatedBytes, `bytes of a ${state}`).toBeLessThan(3);
    }
  },
);

/** Here, each alias, object or property is something of its own to the cache: a key, an entry, a part of a key. */
it.each<[string, number, (size: number) => WorstRequest]>([
  ["of aliases with keys of their own", 9, (size) => querying((n) => `a${n}: item(id: ${n}) { id }`, 100_000 * size)],
  [
    "of cached aliases below a cached field",
    // graphql 16.6 makes a hundredth fewer calls of its own than 16.15.
    4.2,
    (size) => ({ source: `{ item(id: 1) { ${parts(100_000 * size, (n) => `a${n}: name`)} } }` }),
  ],
  ["of cached fields in lists", 14, (size) => querying((n) => `a${n}: items(count: 1000) { id name }`, 120 * size)],
  [
    "of fragments that spread others twice",
    3,
    (size) => ({ source: `{ ${parts(95_000 * size, (n) => `a${n}: selected { ...F0 }`)} } ${fragments.join(" ")}` }),
  ],
  [
    "of aliases that spread a fragment with many variables, of which all are in their keys",
    9,
    (size) => ({
      source: `query (${many(1_000 * size, (n) => `$v${n}: Int`)}) {
        ${many(2_000 * size, (n) => `a${n}: none(id: ${n}) { ...F }`)}
      } fragment F on Item { ${many(1_000 * size, (n) => `p${n}: part(of: $v${n})`)} }`,
      // It compares the fields of the fragment with each other.
      rules: WITHOUT_OVERLAPS,
    }),
  ],
  [
    "of a load that reads all variables, beside a list of literals and a selection in many parts",
    2,
    (size) => ({
      source: `query ($of: Int, ${many(1_000 * size, (n) => `$v${n}: Int`)}) {
        looked(list: [${many(2_000 * size, String)}]) { ${many(2_000 * size, (n) => `s${n}: self { part(of: $of) }`)} }
        ${many(1_000 * size, (n) => `a${n}: items(count: $v${n}) { id }`)}
      }`,
      variables: Object.fromEntries(ids(1_000 * size).map((id) => [`v${id}`, 0])),
      rules: WITHOUT_OVERLAPS,
    }),
  ],
  [
    "of aliases with a list in their keys",
    // The list is written for the key, and again when the load begins: another resolver may have changed it.
    6,
    (size) => ({
      source: `query ($list: [ID!]) { ${parts(50_000 * size, (n) => `a${n}: item(id: ${n}, list: $list) { id }`)} }`,
      variables: { list: ids(8_000) },
    }),
  ],
  [
    "of aliases with a list that is too long for their keys",
    6,
    (size) => ({
      source: `query ($list: [ID!]) { ${parts(50_000 * size, (n) => `a${n}: item(id: ${n}, list: $list) { id }`)} }`,
      variables: { list: ids(25_000).fill("1") },
    }),
  ],
])("the cost %s is linear in the request", async (_what, bound, requestOf) => {
  const half = await workOf(emptyCache().cached, requestOf(0.5));
  const whole = await workOf(emptyCache().cached, requestOf(1));
  const without = await workOf(plain, requestOf(1));
  expect(whole.calls / half.calls).toBeLessThan(2.6);
  expect(whole.allocatedBytes / half.allocatedBytes).toBeLessThan(2.8);
  expect(whole.calls / without.calls).toBeLessThan(bound);
});

it("properties of an argument cost a key that is linear in them, up to its bound", async () => {
  const requestOf = (count: number): WorstRequest => ({
    source: "query ($input: Any) { find(input: $input) }",
    variables: { input: Object.fromEntries(ids(count).map((id) => [`property${id}`, 1])) },
  });
  const { cached } = emptyCache();
  const [few, many] = [await workOf(cached, requestOf(1_000)), await workOf(cached, requestOf(2_000))];
  const tooMany = await workOf(cached, requestOf(20_000));
  expect(many.calls / few.calls).toBeLessThan(2.3);
  expect(tooMany.calls / few.calls).toBeLessThan(21);
});
