import { gate, settle } from "@graphql-cached/testing";
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
import { applyCached, type CacheOptions, type RefreshJob } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { graphql17, itOnGraphql17, variablesOf } from "../../support/graphql-17.js";
import { schemaOf } from "../../support/listen.js";
import { dataOf, memoryWorld, type Process, pair, timedWorld, type World, waitForStores } from "../../support/world.js";

type Info = GraphQLResolveInfo;
type Args = [source: unknown, args: { readonly id: string }, context: unknown, info: Info];
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

const bySelection: Look = (info) => {
  const sets = info.fieldNodes.map(({ selectionSet }) => selectionSet);
  return selected(info, sets, getNamedType(info.returnType) as GraphQLObjectType);
};

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
  { source: '{ movie(id: 7) @mark(as: "a") { seen } }' },
  { source: "{ movie(id: 7) @mark { seen } }" },
  { source: "{ movie(id: 7) { id } again: movie(id: 7) { title } }" },
  { source: "{ movie(id: 7) { id } movie(id: 7) { stars } }" },
  ...["a", "b"].map((text) => ({
    source: "query ($text: String) { movie(id: 7) { seen } other(text: $text) }",
    variables: { text },
  })),
  { source: "{ movie(id: 7) { seen } other }" },
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
  const movie = async (...[, { id }, , info]: Args): Promise<object> => {
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
async function expectSameAnswers(look: Look, sdl: string, asks: readonly Ask[] = ASKS): Promise<readonly Site[]> {
  const uncached = schemaOf(typeDefs, resolversOf(look, []));
  const expected = new Map<Ask, unknown>();
  for (const ask of asks) {
    expect(validate(uncached, documents.get(ask.source) as DocumentNode)).toEqual([]);
    expected.set(ask, await answerOf(uncached, ask));
  }
  const world = memoryWorld();
  const sites = pair(() => siteOf(world, look, {}, sdl));
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

/** Two sites whose loads wait at a gate before they look at the selection. */
function gatedSites(look: Look) {
  const { passed, open } = gate();
  const shared = memoryWorld();
  const [one, two] = pair(() => siteOf(shared, async (info) => (await passed, look(info))));
  return { one, two, open };
}

describe("a resolver that looks beyond the selection of its field", () => {
  for (const [what, look] of Object.entries(UNKEYABLE_LOOKS))
    it(`answers every query as without the cache when it reads ${what}, and is not cached then`, async () => {
      const asks = ["x", "y"].flatMap((tenant) => ASKS.map((ask) => ({ ...ask, rootValue: { tenant } })));
      const sites = await expectSameAnswers(look, keyedTypeDefs, asks);
      for (const site of sites) expect(refusals(site)).toContain("CACHED_QUERY_READ");
    });
});

describe("a resolver that looks ahead", () => {
  for (const [what, look] of Object.entries(LOOKS)) {
    it(`answers every query as without the cache when it reads ${what}, and is cached by selection`, async () => {
      for (const site of await expectSameAnswers(look, keyedTypeDefs)) {
        expect(site.outcomes().hit).toBeGreaterThan(ASKS.length);
        expect(refusals(site)).toEqual([]);
      }
    });

    it(`answers every query as without the cache when it reads ${what}, and is not cached without $selection`, async () => {
      for (const site of await expectSameAnswers(look, typeDefs)) {
        expect(site.outcomes().hit).toBeUndefined();
        expect(new Set(refusals(site))).toEqual(new Set(["CACHED_SELECTION_READ"]));
      }
    });
  }

  it("gives no other reader the value of a load that turns out to have looked ahead, in its process or another", async () => {
    const { one, two, open } = gatedSites(bySelection);
    const answers = [movieOf(one, "title"), movieOf(one, "stars"), movieOf(one, "stars"), movieOf(two, "id stars")];
    await vi.waitFor(() => expect(one.loads.length + two.loads.length).toBe(1));
    await settle();
    open();
    expect(await Promise.all(answers)).toEqual([{ title: "Alien" }, { stars: 5 }, { stars: 5 }, { id: "7", stars: 5 }]);
  });

  it("shares no error with queries that select something else", async () => {
    const { one, two, open } = gatedSites((info) => {
      const tree = bySelection(info);
      if ("stars" in (tree as object)) throw new Error("no stars");
      return tree;
    });
    const failed = one.ask("{ movie(id: 7) { stars } again: movie(id: 7) { id } }", {});
    await vi.waitFor(() => expect(one.loads).toHaveLength(1));
    const answers = [movieOf(one, "title"), movieOf(two, "title")];
    await settle();
    open();
    expect((await failed).data).toEqual({ movie: null, again: { id: "7" } });
    expect(await Promise.all(answers)).toEqual([{ title: "Alien" }, { title: "Alien" }]);
    expect(await movieOf(two, "id")).toEqual({ id: "7" });
  });

  it("gives each alias of one query the value for its own selection", async () => {
    const { ask } = siteOf(memoryWorld(), bySelection);
    const source = "{ a: movie(id: 7) { title } b: movie(id: 7) { stars } c: movie(id: 7) { title } }";
    const expected = { a: { title: "Alien" }, b: { stars: 5 }, c: { title: "Alien" } };
    for (let nth = 0; nth < 2; nth++) expect(await dataOf(ask(source, {}))).toEqual(expected);
  });

  it("gives each alias of one query its own value if the result is null for some selections only", async () => {
    const movie = (...[, , , info]: Args): object | null =>
      "stars" in (bySelection(info) as object) ? { id: "7", stars: 5 } : null;
    const { ask } = memoryWorld().process(typeDefs, { Query: { movie } });
    const answer = await dataOf(ask("{ a: movie(id: 7) { id } b: movie(id: 7) { stars } }", {}));
    expect(answer).toEqual({ a: null, b: { stars: 5 } });
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
    const shared = timedWorld();
    const jobs: RefreshJob[] = [];
    let isLooking = false;
    const look: Look = (info) => (isLooking ? bySelection(info) : { title: {}, stars: {} });
    const web = siteOf(shared, look, { loads: { refreshQueue: (job: RefreshJob) => void jobs.push(job) } });
    const worker = siteOf(shared, look);
    await movieOf(web, "title");
    await waitForStores(web);
    isLooking = true;
    await shared.clock.advance(61_000);
    await movieOf(web, "title");
    await settle();
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(false);
    expect(refusals(worker)).toEqual(["CACHED_SELECTION_READ"]);
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
    const top = (...[, , , { fieldNodes }]: Args): number =>
      ++loads + Number(fieldNodes[0]?.selectionSet !== undefined);
    const site = memoryWorld().process("type Query { top: Int @cached(maxAge: 60) }", { Query: { top } });
    for (const query of ["{ top }", "query Q { a: top }"]) await site.ask(query);
    expect(loads).toBe(1);
  });

  it("is not cached if it returns a leaf that depends on variables", async () => {
    const top = (...[, , , info]: Args): unknown => variablesOf(info).n ?? 0;
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
    const all = ["1 1", "2 1", "1 2", "$n 1"].map((values) => values.split(" ") as [string, string]);
    const seen: unknown[] = [];
    for (const values of all) seen.push(await seenWith(...values));
    for (const [nth, values] of all.entries()) expect(await seenWith(...values)).toBe(seen[nth]);
    expect(seen[1]).toContain("...R(first: 2)");
    expect(seen[3]).toContain("...R(first: $n)");
    expect(site.loads).toHaveLength(all.length);
  });

  it("is keyed by the kind of the operation, also where two operations of a document share its node", async () => {
    const kind = (...[, , , { operation }]: Args): string => operation.operation;
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
    const site = siteOf(memoryWorld(), bySelection);
    for (const fields of ["id", "title", "stars", "id title"]) await movieOf(site, fields);
    expect(site.warnings).toEqual([
      expect.stringMatching(/`Query\.movie`.*set key: \["\$args", "\$selection"\]/) as string,
    ]);
    expect(site.loads).toHaveLength(4);
  });

  it("is reported once if it reads what no key contains", async () => {
    const site = siteOf(memoryWorld(), UNKEYABLE_LOOKS["the name of the operation"] as Look);
    for (const fields of ["id", "title", "stars"]) await movieOf(site, fields);
    expect(site.warnings).toEqual([expect.stringMatching(/`Query\.movie`.*`info\.operation\.name`/) as string]);
    expect(site.loads).toHaveLength(3);
  });

  it("is keyed by selection in a stitched schema", async () => {
    const process = memoryWorld().bare();
    const loads: string[] = [];
    const schemaExtensions = { schemaExtensions: { stitchingInfo: {} }, types: {} };
    const schema = schemaOf(typeDefs, resolversOf(byDelegation, loads), { schemaExtensions });
    expect(schema.extensions).toHaveProperty("stitchingInfo");
    const stitched = applyCached(schema, process.cache);
    for (const fields of ["title", "stars", "title", "stars"])
      await graphql({ schema: stitched, source: `{ movie(id: 7) { ${fields} } }`, contextValue: {} });
    expect(loads).toHaveLength(2);
    expect(refusals(process)).toEqual([]);
  });
});

it("is seen although the resolver has frozen `info` before it reads the query", async () => {
  const movie = (...[, { id }, , info]: Args): object => {
    Object.freeze(info);
    return { id, title: String(info.fieldNodes[0]?.selectionSet?.selections.length) };
  };
  const { ask } = memoryWorld().process(typeDefs, { Query: { movie } });
  expect(await dataOf(ask("{ movie(id: 1) { title } }"))).toEqual({ movie: { title: "1" } });
  expect(await dataOf(ask("{ movie(id: 1) { id title } }"))).toEqual({ movie: { id: "1", title: "2" } });
});

describe("variables that have the names of the records in which graphql 17 keeps variables", () => {
  const all = (info: Info): unknown => variablesOf(info);
  const named = (info: Info): unknown => {
    const { sources, coerced } = variablesOf(info);
    return { sources, coerced };
  };
  const given = [
    { sources: { n: 1 }, coerced: { n: 1 } },
    { sources: { n: 1 }, coerced: { n: 2 } },
    { sources: {}, coerced: { n: 2 } },
  ];
  const empty = [{}, { sources: {}, coerced: {} }];
  it.each<[what: string, key: string, look: Look, variables: readonly object[]]>([
    ["all are read", "", all, given],
    ["all are read, and the selection is in the key", ', key: ["$selection"]', all, given],
    ["they are read by name, and are empty objects or absent", ', key: ["$selection"]', named, empty],
  ])("are seen if %s", async (_, key, look, each) => {
    const types = `
      input In { n: Int }
      type Query { page: Page @cached(maxAge: 60${key}) }
      type Page { seen: String at(a: In, b: In): String }
    `;
    const page = (...[, , , info]: Args) => ({ seen: JSON.stringify(look(info)) });
    const { ask, outcomes } = memoryWorld().process(types, { Query: { page }, Page: { at: () => "at" } });
    const source = "query ($sources: In, $coerced: In) { page { seen at(a: $sources, b: $coerced) } }";
    for (const variables of each)
      for (const _ of [1, 2]) {
        const { page: answer } = (await dataOf(ask(source, {}, { ...variables }))) as { page: { seen: string } };
        expect(JSON.parse(answer.seen)).toEqual(variables);
        await settle();
      }
    if (look === named) expect(outcomes()).toEqual({ loaded: 2, hit: 2 });
  });
});
