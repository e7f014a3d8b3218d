import { gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import {
  type DocumentNode,
  execute,
  type FragmentDefinitionNode,
  GraphQLIncludeDirective,
  type GraphQLObjectType,
  type GraphQLResolveInfo,
  GraphQLSkipDirective,
  getArgumentValues,
  getDirectiveValues,
  getNamedType,
  graphql,
  Kind,
  parse,
  print,
  type SelectionSetNode,
  validate,
} from "graphql";
import { applyCached, type CacheOptions, cachedTypeDefs, type RefreshJob } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { graphql17, itOnGraphql17, variablesOf } from "../../support/graphql-17.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World, waitForStores } from "../../support/world.js";

type Info = GraphQLResolveInfo;
/** What a resolver derives from `info`; the movie that it returns contains no more than this says. */
type Look = (info: Info) => unknown;

const typeDefs = /* GraphQL */ `
  directive @mark(as: String) on FIELD | QUERY
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60, staleWhileRevalidate: 600, tags: ["Movie:{$args.id}"])
    other(text: String): String
  }
  type Movie { id: ID! title: String stars: Int seen: String reviews(first: Int = 2): [Review!] }
  type Review { id: ID! text: String by: String }
`;

/** The same with the selection in its key. */
const keyedTypeDefs = typeDefs.replace("maxAge: 60,", 'maxAge: 60, key: ["$args", "$selection"],');

/** Returns the tree of selected fields with their arguments, as the look-ahead libraries do. */
function selected(info: Info, sets: readonly (SelectionSetNode | undefined)[], type: GraphQLObjectType): object {
  const tree: Record<string, unknown> = {};
  for (const selection of sets.flatMap((set) => set?.selections ?? [])) {
    if (getDirectiveValues(GraphQLSkipDirective, selection, info.variableValues)?.if === true) continue;
    if (getDirectiveValues(GraphQLIncludeDirective, selection, info.variableValues)?.if === false) continue;
    if (selection.kind === Kind.FIELD) {
      const field = type.getFields()[selection.name.value];
      if (field === undefined) continue;
      const args = getArgumentValues(field, selection, info.variableValues);
      const fieldType = getNamedType(field.type) as GraphQLObjectType;
      const inner = selection.selectionSet && selected(info, [selection.selectionSet], fieldType);
      tree[field.name] = { args, ...(tree[field.name] as object), ...inner };
      continue;
    }
    const fragment = selection.kind === Kind.INLINE_FRAGMENT ? selection : info.fragments[selection.name.value];
    Object.assign(tree, selected(info, [fragment?.selectionSet], type));
  }
  return tree;
}

const bySelection: Look = (info) =>
  selected(
    info,
    info.fieldNodes.map(({ selectionSet }) => selectionSet),
    getNamedType(info.returnType) as GraphQLObjectType,
  );

/** What `delegateToSchema` of graphql-tools reads to build the document that it sends. */
const byDelegation: Look = (info) => {
  const { operation, fragments } = info;
  const variables = variablesOf(info);
  const name = operation.name?.value;
  const values = Object.fromEntries(
    (operation.variableDefinitions ?? []).map(({ variable }) => [variable.name.value, variables[variable.name.value]]),
  );
  const definitions: FragmentDefinitionNode[] = [];
  for (const fragment in fragments) definitions.push(fragments[fragment] as FragmentDefinitionNode);
  expect([name, info.rootValue, values, definitions]).toHaveLength(4);
  return bySelection(info);
};

/** Resolvers whose result depends on the selection, in the style of the libraries that look ahead. */
const LOOKS: Readonly<Record<string, Look>> = {
  "field nodes, fragments and variables": bySelection,
  "a copy of `info`": (info) => bySelection({ ...info }),
  "a copy of a field node": ({ fieldNodes, ...info }) =>
    bySelection({ ...info, fieldNodes: fieldNodes.map((node) => ({ ...node })) }),
  "`info` after an await": async (info) => (await Promise.resolve(), await settle(), bySelection(info)),
  "what delegation forwards": byDelegation,
  "the directives of its field node": ({ fieldNodes }) => fieldNodes[0]?.directives?.map(print),
};

/** Resolvers whose result depends on what no key contains. */
const UNKEYABLE_LOOKS: Readonly<Record<string, Look>> = {
  "the selection of the operation": ({ operation }) => print(operation.selectionSet),
  "the directives of the operation": ({ operation }) => (operation.directives ?? []).length,
  "its variable definitions": ({ operation }) => operation.variableDefinitions?.map(print),
  "a variable of another field": (info) => variablesOf(info).text ?? "none",
  "the names of all variables": (info) => Object.keys(variablesOf(info)),
  "whether there is a variable": (info) => "text" in variablesOf(info),
  "all variables": ({ variableValues }) => JSON.stringify(variableValues),
  "a variable of the selection by its name": (info) => variablesOf(info).first ?? "none",
  "the names of all fragments": ({ fragments }) => Object.keys(fragments),
  "a fragment of another field": ({ fragments }) => fragments.Elsewhere && print(fragments.Elsewhere),
  "the name of the operation": ({ operation }) => operation.name?.value ?? "anonymous",
  "the text of the query": ({ operation }) => operation.loc?.source.body,
  "the text of the query by its field node": ({ fieldNodes }) => fieldNodes[0]?.loc?.source.body,
  "a copy of the operation": ({ operation }) => JSON.stringify({ ...operation, loc: undefined }),
  "the root value": ({ rootValue }) => (rootValue as { tenant: string }).tenant,
};

interface Ask {
  readonly source: string;
  readonly variables?: Record<string, unknown>;
  readonly rootValue?: object;
}

/** Queries that select different things of one movie, each asked several times. */
const ASKS: readonly Ask[] = [
  { source: "{ movie(id: 7) { title } }" },
  { source: "{ movie(id: 7) { title stars } }" },
  { source: "query Named { movie(id: 7) { stars seen } }" },
  { source: "query Other { movie(id: 7) { stars seen } }" },
  { source: "{ movie(id: 7) { ...Parts } } fragment Parts on Movie { reviews { id } seen }" },
  { source: "{ movie(id: 7) { ...Parts } } fragment Parts on Movie { reviews { text } seen }" },
  { source: "{ movie(id: 7) { ... on Movie { reviews(first: 1) { by } } } }" },
  ...[1, 3].map((first) => ({
    source: "query ($first: Int) { movie(id: 7) { seen reviews(first: $first) { id by } } }",
    variables: { first },
  })),
  { source: "{ movie(id: 7) { seen reviews(first: 3) { id by } } }" },
  { source: "query ($n: Int) { movie(id: 7) { seen reviews(first: $n) { id by } } }", variables: { n: 3 } },
  ...[true, false].map((yes) => ({
    source: "query ($yes: Boolean!) { movie(id: 7) { seen title @include(if: $yes) stars @skip(if: $yes) } }",
    variables: { yes },
  })),
  { source: "{ movie(id: 7) @mark(as: 1) { seen } }".replace("1", '"a"') },
  { source: "{ movie(id: 7) @mark { seen } }" },
  { source: "{ movie(id: 7) { id } again: movie(id: 7) { title } }" },
  { source: "{ movie(id: 7) { id } movie(id: 7) { stars } }" },
  ...["a", "b"].map((text) => ({
    source: "query ($text: String) { movie(id: 7) { seen } other(text: $text) }",
    variables: { text },
  })),
  { source: "{ movie(id: 7) { seen } other { ...Elsewhere } }".replace(" { ...Elsewhere }", "") },
  { source: "{ movie(id: 7) { seen } ...Elsewhere } fragment Elsewhere on Query { other }" },
  { source: "{ movie(id: 7) { seen } ...Elsewhere } fragment Elsewhere on Query { o: other }" },
  { source: "{ movie(id: 7) { seen } again: movie(id: 7) { seen } }" },
  { source: 'query @mark(as: "q") { movie(id: 7) { seen } }' },
];

const REVIEWS = [1, 2, 3, 4].map((id) => ({ id, text: `text ${id}`, by: `author ${id}` }));

/** Returns a resolver that loads only what `look` finds, and counts its calls. */
function resolversOf(look: Look, loads: string[]) {
  const pick = (tree: Record<string, object>, row: Record<string, unknown>): object =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name, name in tree ? value : null]));
  const movie = async (_: unknown, { id }: { id: string }, _context: unknown, info: Info): Promise<object> => {
    loads.push(id);
    const found = await look(info);
    const seen = JSON.stringify(found) ?? "undefined";
    if (typeof found !== "object" || found === null || Array.isArray(found))
      return { id, title: "Alien", stars: 5, seen, reviews: REVIEWS };
    const tree = found as Record<string, { args: { first?: number } } & Record<string, object>>;
    const reviews = REVIEWS.slice(0, tree.reviews?.args.first ?? 0).map((one) => pick(tree.reviews as never, one));
    return { ...pick(tree, { title: "Alien", stars: 5, seen, reviews }), id };
  };
  return { Query: { movie, other: (_: unknown, { text }: { text?: string }) => text ?? "other" } };
}

interface Site extends Process {
  readonly loads: string[];
}

function siteOf(world: World, look: Look, options: CacheOptions<never> = {}, sdl = typeDefs): Site {
  const loads: string[] = [];
  return { ...world.process(sdl, resolversOf(look, loads), options), loads };
}

const keyedSiteOf = (world: World, look: Look, options: CacheOptions<never> = {}): Site =>
  siteOf(world, look, options, keyedTypeDefs);

const documents = new Map([...new Set(ASKS.map(({ source }) => source))].map((source) => [source, parse(source)]));

const answerOf = async (schema: Process["schema"], { source, variables, rootValue }: Ask): Promise<unknown> => {
  const document = documents.get(source) as DocumentNode;
  const args = { schema, document, contextValue: {}, variableValues: variables ?? {}, rootValue };
  return JSON.parse(JSON.stringify(await execute(args)));
};

/** Asks every query of two processes three times, and compares each answer with the one without a cache. */
async function expectSameAnswers(
  world: World,
  look: Look,
  sdl: string,
  asks: readonly Ask[] = ASKS,
): Promise<readonly Site[]> {
  const uncached = makeExecutableSchema({
    typeDefs: [cachedTypeDefs, typeDefs],
    resolvers: resolversOf(look, []),
  });
  const expected = new Map<Ask, unknown>();
  for (const ask of asks) {
    expect(validate(uncached, documents.get(ask.source) as DocumentNode)).toEqual([]);
    expected.set(ask, await answerOf(uncached, ask));
  }
  const sites = [siteOf(world, look, {}, sdl), siteOf(world, look, {}, sdl)];
  for (let nth = 0; nth < 3; nth++)
    for (const site of sites)
      for (const ask of nth === 1 ? asks.toReversed() : asks) {
        expect(await answerOf(site.schema, ask), JSON.stringify(ask)).toEqual(expected.get(ask));
        await settle();
      }
  return sites;
}

const refusals = ({ events }: Pick<Process, "events">): string[] =>
  events.flatMap((event) => (event.name === "value.refused" ? [event.error.code] : []));

const movieOf = async (site: Process, fields: string): Promise<unknown> =>
  ((await dataOf(site.ask(`{ movie(id: 7) { ${fields} } }`, {}))) as { movie: unknown }).movie;

/** A gate that loads wait at, after they have looked at the selection or before. */
function gatedLook(look: Look = bySelection, isEarly = true) {
  const state = { hold: undefined as Promise<void> | undefined };
  const gated: Look = async (info) => {
    const early = isEarly ? look(info) : undefined;
    await state.hold;
    return isEarly ? early : look(info);
  };
  return { state, look: gated };
}

describe("a resolver that looks beyond the selection of its field", () => {
  for (const [what, look] of Object.entries(UNKEYABLE_LOOKS))
    it(`answers every query as without the cache when it reads ${what}, and is not cached then`, async () => {
      const asks = ["x", "y"].flatMap((tenant) => ASKS.map((ask) => ({ ...ask, rootValue: { tenant } })));
      const sites = await expectSameAnswers(memoryWorld(), look, keyedTypeDefs, asks);
      for (const site of sites) expect(refusals(site)).toContain("CACHED_QUERY_READ");
    });
});

describe("a resolver that looks ahead", () => {
  for (const [what, look] of Object.entries(LOOKS)) {
    it(`answers every query as without the cache when it reads ${what}, and is cached by selection`, async () => {
      const sites = await expectSameAnswers(memoryWorld(), look, keyedTypeDefs);
      for (const { outcomes } of sites) expect(outcomes().hit).toBeGreaterThan(ASKS.length);
      for (const site of sites) expect(refusals(site)).toEqual([]);
    });

    it(`answers every query as without the cache when it reads ${what}, and is not cached without $selection`, async () => {
      const sites = await expectSameAnswers(memoryWorld(), look, typeDefs);
      for (const { outcomes } of sites) expect(outcomes().hit).toBeUndefined();
      for (const site of sites) expect(new Set(refusals(site))).toEqual(new Set(["CACHED_SELECTION_READ"]));
    });
  }

  it("gives no other reader the value of a load that turns out to have looked ahead, in its process or another", async () => {
    const shared = memoryWorld();
    const { state, look } = gatedLook(bySelection, false);
    const [one, two] = [siteOf(shared, look), siteOf(shared, look)];
    const hold = gate();
    state.hold = hold.passed;
    const answers = [movieOf(one, "title"), movieOf(one, "stars"), movieOf(one, "stars"), movieOf(two, "id stars")];
    await vi.waitFor(() => expect(one.loads.length + two.loads.length).toBe(1));
    await settle();
    hold.open();
    expect(await Promise.all(answers)).toEqual([{ title: "Alien" }, { stars: 5 }, { stars: 5 }, { id: "7", stars: 5 }]);
  });

  it("shares no error with queries that select something else", async () => {
    const look: Look = (info) => {
      const tree = bySelection(info);
      if ("stars" in (tree as object)) throw new Error("no stars");
      return tree;
    };
    const shared = memoryWorld();
    const { state, look: gated } = gatedLook(look, false);
    const [one, two] = [siteOf(shared, gated), siteOf(shared, gated)];
    const hold = gate();
    state.hold = hold.passed;
    const failed = one.ask("{ movie(id: 7) { stars } again: movie(id: 7) { id } }", {});
    await vi.waitFor(() => expect(one.loads).toHaveLength(1));
    const answers = [movieOf(one, "title"), movieOf(two, "title")];
    await settle();
    hold.open();
    expect((await failed).data).toEqual({ movie: null, again: { id: "7" } });
    expect(await Promise.all(answers)).toEqual([{ title: "Alien" }, { title: "Alien" }]);
    expect(await movieOf(two, "id")).toEqual({ id: "7" });
  });

  it("gives each alias of one query the value for its own selection", async () => {
    const site = siteOf(memoryWorld(), bySelection);
    for (let nth = 0; nth < 2; nth++)
      expect(
        await dataOf(site.ask("{ a: movie(id: 7) { title } b: movie(id: 7) { stars } c: movie(id: 7) { title } }", {})),
      ).toEqual({ a: { title: "Alien" }, b: { stars: 5 }, c: { title: "Alien" } });
  });

  it("gives each alias of one query its own value if the result is null for some selections only", async () => {
    const loads: string[] = [];
    const movie = (_: unknown, __: unknown, ___: unknown, info: Info): object | null =>
      "stars" in (bySelection(info) as object) ? { id: "7", stars: 5 } : null;
    const site = { ...memoryWorld().process(typeDefs, { Query: { movie } }), loads };
    expect(await dataOf(site.ask("{ a: movie(id: 7) { id } b: movie(id: 7) { stars } }", {}))).toEqual({
      a: null,
      b: { stars: 5 },
    });
  });

  it("does not store a value that is invalidated during its load by a process that has loaded none", async () => {
    const shared = memoryWorld();
    const { state, look } = gatedLook();
    const [knowing, fresh] = [keyedSiteOf(shared, look), keyedSiteOf(shared, look)];
    await movieOf(knowing, "id");
    const hold = gate();
    state.hold = hold.passed;
    const during = movieOf(knowing, "title");
    await vi.waitFor(() => expect(knowing.loads).toHaveLength(2));
    await fresh.cache.invalidate({ coordinate: "Query.movie", args: { id: 7 } });
    hold.open();
    await during;
    await settle();
    await movieOf(knowing, "title");
    expect(knowing.loads).toHaveLength(3);
  });

  it("is loaded again for its own selection by a request with REFRESH", async () => {
    const site = keyedSiteOf(memoryWorld(), bySelection);
    for (const fields of ["title", "stars"]) await movieOf(site, fields);
    await waitForStores(site, 2);
    const context = {};
    site.cache.override(context, "REFRESH");
    await site.ask("{ movie(id: 7) { title } }", context);
    await waitForStores(site, 3);
    for (const fields of ["title", "stars"]) await movieOf(site, fields);
    expect(site.loads).toHaveLength(3);
  });

  it("is not refreshed by a worker", async () => {
    const shared = memoryWorld();
    const jobs: RefreshJob[] = [];
    let isLooking = false;
    const look: Look = (info) => (isLooking ? bySelection(info) : { title: {}, stars: {} });
    const sdl = typeDefs.replace("maxAge: 60", "maxAge: 1, jitter: 0");
    const web = siteOf(shared, look, { loads: { refreshQueue: (job: RefreshJob) => void jobs.push(job) } }, sdl);
    const worker = siteOf(shared, look, {}, sdl);
    await movieOf(web, "title");
    await waitForStores(web);
    isLooking = true;
    await vi.waitFor(
      async () => {
        await movieOf(web, "title");
        expect(jobs).toHaveLength(1);
      },
      { timeout: 5_000, interval: 100 },
    );
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(false);
    expect(refusals(worker)).toEqual(["CACHED_SELECTION_READ"]);
  });
});

onEachStore("entries by selection", (world) => {
  it("loads each selection once across two processes", async () => {
    const shared = world();
    const [one, two] = [keyedSiteOf(shared, bySelection), keyedSiteOf(shared, bySelection)];
    for (const fields of ["title", "stars"])
      for (const site of [one, two, one, two]) {
        expect(await movieOf(site, fields)).toEqual({ title: { title: "Alien" }, stars: { stars: 5 } }[fields]);
        await settle();
      }
    expect(one.loads.length + two.loads.length).toBe(2);
  });

  it("is invalidated for every selection by a process that has loaded none", async () => {
    const shared = world();
    const [knowing, fresh] = [keyedSiteOf(shared, bySelection), keyedSiteOf(shared, bySelection)];
    const askAll = async (): Promise<void> => {
      for (const fields of ["id", "title", "stars"]) await movieOf(knowing, fields);
      await settle();
    };
    await askAll();
    await askAll();
    await waitForStores(knowing, 3);
    const { length } = knowing.loads;
    const stored = knowing.events.filter(({ name }) => name === "write.finished").length;
    await askAll();
    expect(knowing.loads).toHaveLength(length);
    await fresh.cache.invalidate({ coordinate: "Query.movie", args: { id: 7 } });
    await askAll();
    expect(knowing.loads).toHaveLength(length + 3);
    await waitForStores(knowing, stored + 3);
    await fresh.cache.invalidate({ coordinate: "Query.movie", args: { id: 8 } });
    await askAll();
    expect(knowing.loads).toHaveLength(length + 3);
    await fresh.cache.invalidate({ coordinate: "Query.movie", args: { id: 7 } }, { soft: true });
    await askAll();
    await waitForStores(knowing, stored + 6);
    expect(knowing.loads).toHaveLength(length + 6);
    await fresh.cache.mutate({ entries: [{ coordinate: "Query.movie", args: { id: 7 } }] }, askAll);
    await askAll();
    expect(knowing.loads).toHaveLength(length + 12);
  });
});

describe("a resolver of a cached field", () => {
  /** Reads of `info` that say nothing that the key does not. */
  const FREE: Readonly<Record<string, Look>> = {
    "copies `info`": (info) => ({ ...info }).fieldName,
    "reads fieldName, path, types, schema and cacheControl": (info) => {
      const { fieldName, path, parentType, returnType, schema } = info;
      return [fieldName, path.key, parentType.name, String(returnType), schema.getTypeMap().Query?.name];
    },
    "reads the name, alias and arguments of its field node": ({ fieldNodes }) =>
      fieldNodes.map(({ kind, name, alias, arguments: args }) => [kind, name.value, alias?.value, args?.length]),
    "keeps `info` unread": (info) => [info.operation, info.fragments, info.variableValues, info.rootValue].length,
  };
  for (const [what, look] of Object.entries(FREE))
    it(`shares one entry between all selections if it ${what}`, async () => {
      const site = siteOf(memoryWorld(), (info) => String(look(info)));
      for (const fields of ["title", "stars", "title stars"]) await movieOf(site, fields);
      expect(site.loads).toHaveLength(1);
      expect(refusals(site)).toEqual([]);
    });

  it("may read the selection of a leaf, which has none", async () => {
    let loads = 0;
    const top = (_: unknown, __: unknown, ___: unknown, { fieldNodes }: Info): number =>
      ++loads + Number(fieldNodes[0]?.selectionSet !== undefined);
    const site = memoryWorld().process("type Query { top: Int @cached(maxAge: 60) }", { Query: { top } });
    for (const query of ["{ top }", "query Q { a: top }"]) await site.ask(query);
    expect(loads).toBe(1);
  });

  it("is not cached if it returns a leaf that depends on variables", async () => {
    const top = (_: unknown, __: unknown, ___: unknown, info: Info): unknown => variablesOf(info).n ?? 0;
    const site = memoryWorld().process(
      'type Query { top: Int @cached(maxAge: 60) keyed: Int @cached(maxAge: 60, key: ["$selection"]) one(n: Int): Int }',
      { Query: { top, keyed: top } },
    );
    const source = "query ($n: Int) { top keyed one(n: $n) }";
    for (const n of [1, 1, 2, 2, 1, 2])
      expect(await dataOf(site.ask(source, {}, { n }))).toEqual({ top: n, keyed: n, one: null });
    expect(site.outcomes().hit).toBeUndefined();
  });

  itOnGraphql17("is keyed by the arguments of fragments, if it looks ahead", async () => {
    const look: Look = async ({ fieldNodes }) =>
      fieldNodes.map(({ selectionSet }) => selectionSet && print(selectionSet));
    const site = keyedSiteOf(memoryWorld(), look);
    const seenWith = async (first: string, fallback: string): Promise<unknown> => {
      const source = `query ($n: Int = 3) { movie(id: 7) { ...R(first: ${first}) ...S } }
        fragment R($first: Int) on Movie { reviews(first: $first) { id } }
        fragment S($first: Int = ${fallback}) on Movie { seen r: reviews(first: $first) { id } }`;
      const document = graphql17.parse(source, { experimentalFragmentArguments: true });
      const { data } = await execute({ schema: site.schema, document, contextValue: {} });
      await settle();
      return (data as { movie: { seen: string } }).movie.seen;
    };
    const all = [
      ["1", "1"],
      ["2", "1"],
      ["1", "2"],
      ["$n", "1"],
    ] as const;
    const seen: unknown[] = [];
    for (const [first, fallback] of all) seen.push(await seenWith(first, fallback));
    for (const [nth, [first, fallback]] of all.entries()) expect(await seenWith(first, fallback)).toBe(seen[nth]);
    expect(seen[1]).toContain("...R(first: 2)");
    expect(seen[3]).toContain("...R(first: $n)");
    expect(site.loads).toHaveLength(all.length);
  });

  it("is keyed by the kind of the operation, also where two operations of a document share its node", async () => {
    const kind = (_: unknown, __: unknown, ___: unknown, { operation }: Info): string => operation.operation;
    const film = (): object => ({ id: "7" });
    const site = memoryWorld().process(
      `type Query { film: Film } type Mutation { touch: Film }
       type Film { id: ID! kind: String @cached(maxAge: 60, key: ["$source.id", "$selection"]) }`,
      { Query: { film }, Mutation: { touch: film }, Film: { kind } },
    );
    const document = parse("query Q { film { ...F } } mutation M { touch { ...F } } fragment F on Film { kind }");
    for (let nth = 0; nth < 2; nth++)
      for (const [operationName, name, expected] of [
        ["Q", "film", "query"],
        ["M", "touch", "mutation"],
      ] as const) {
        const { data } = await execute({ schema: site.schema, document, operationName, contextValue: {} });
        expect(data).toEqual({ [name]: { kind: expected } });
        await settle();
      }
    expect(site.outcomes()).toMatchObject({ loaded: 2, hit: 2 });
  });

  it("is reported once if it looks ahead, with the remedy", async () => {
    const warn = vi.fn<(message: string) => void>();
    const site = siteOf(memoryWorld(), bySelection, { logger: { info: () => undefined, warn } });
    for (const fields of ["id", "title", "stars", "id title"]) await movieOf(site, fields);
    expect(warn.mock.calls).toEqual([
      [expect.stringMatching(/`Query\.movie`.*set key: \["\$args", "\$selection"\]/) as string],
    ]);
    expect(site.loads).toHaveLength(4);
  });

  it("is reported once if it reads what no key contains", async () => {
    const warn = vi.fn<(message: string) => void>();
    const look = UNKEYABLE_LOOKS["the name of the operation"] as Look;
    const site = siteOf(memoryWorld(), look, { logger: { info: () => undefined, warn } });
    for (const fields of ["id", "title", "stars"]) await movieOf(site, fields);
    expect(warn.mock.calls).toEqual([[expect.stringMatching(/`Query\.movie`.*`info\.operation\.name`/) as string]]);
    expect(site.loads).toHaveLength(3);
  });

  it("is keyed by selection in a stitched schema", async () => {
    const world = memoryWorld();
    const process = world.process("type Query { a: Int }", {});
    const loads: string[] = [];
    const schema = makeExecutableSchema({
      typeDefs: [cachedTypeDefs, typeDefs],
      resolvers: resolversOf(byDelegation, loads),
      schemaExtensions: { schemaExtensions: { stitchingInfo: {} }, types: {} } as never,
    });
    expect(schema.extensions).toHaveProperty("stitchingInfo");
    const stitched = applyCached(schema, process.cache);
    for (const fields of ["title", "stars", "title", "stars"])
      await graphql({ schema: stitched, source: `{ movie(id: 7) { ${fields} } }`, contextValue: {} });
    expect(loads).toHaveLength(2);
    expect(refusals(process)).toEqual([]);
  });
});

it("is seen although the resolver has frozen `info` before it reads the query", async () => {
  const movie = (_: unknown, { id }: { id: string }, __: unknown, info: Info): object => {
    Object.freeze(info);
    return { id, title: String(info.fieldNodes[0]?.selectionSet?.selections.length) };
  };
  const { ask } = memoryWorld().process(typeDefs, { Query: { movie } });
  expect(await dataOf(ask("{ movie(id: 1) { title } }"))).toEqual({ movie: { title: "1" } });
  expect(await dataOf(ask("{ movie(id: 1) { id title } }"))).toEqual({ movie: { id: "1", title: "2" } });
});

it.each(["", ', key: ["$selection"]'])(
  "is seen for variables that have the names of the records in which graphql 17 keeps variables, with %j",
  async (key) => {
    const types = `
      input In { n: Int }
      type Query { page: Page @cached(maxAge: 60${key}) }
      type Page { seen: String at(a: In, b: In): String }
    `;
    const page = (_: unknown, __: unknown, ___: unknown, info: Info) => ({ seen: JSON.stringify(variablesOf(info)) });
    const { ask } = memoryWorld().process(types, { Query: { page }, Page: { at: () => "at" } });
    const source = "query ($sources: In, $coerced: In) { page { seen at(a: $sources, b: $coerced) } }";
    for (const variables of [
      { sources: { n: 1 }, coerced: { n: 1 } },
      { sources: { n: 1 }, coerced: { n: 2 } },
      { sources: {}, coerced: { n: 2 } },
    ])
      for (const _ of [1, 2]) {
        const { page: answer } = (await dataOf(ask(source, {}, variables))) as { page: { seen: string } };
        expect(JSON.parse(answer.seen)).toEqual(variables);
        await settle();
      }
  },
);

it("is seen for whether variables have these names if they are empty objects", async () => {
  const types = `
    input In { n: Int }
    type Query { page: Page @cached(maxAge: 60, key: ["$selection"]) }
    type Page { seen: String at(a: In, b: In): String }
  `;
  const page = (_: unknown, __: unknown, ___: unknown, info: Info): object => {
    const { sources, coerced } = variablesOf(info);
    return { seen: JSON.stringify({ sources, coerced }) };
  };
  const { ask, outcomes } = memoryWorld().process(types, { Query: { page }, Page: { at: () => "at" } });
  const source = "query ($sources: In, $coerced: In) { page { seen at(a: $sources, b: $coerced) } }";
  for (const variables of [{}, { sources: {}, coerced: {} }])
    for (const _ of [1, 2]) {
      const { page: answer } = (await dataOf(ask(source, {}, variables))) as { page: { seen: string } };
      expect(JSON.parse(answer.seen)).toEqual(variables);
      await settle();
    }
  expect(outcomes()).toEqual({ loaded: 2, hit: 2 });
});
