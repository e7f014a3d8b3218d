/**
 * Measurements of a server in a separate process:
 * `node dist/bench/server-work.js github-schema|no-cached-field|entity-entry rounds|port start`. Prints the samples as JSON.
 */
import { readFileSync } from "node:fs";
import { ApolloServer, type ApolloServerPlugin } from "@apollo/server";
import { makeExecutableSchema } from "@graphql-tools/schema";
import {
  buildASTSchema,
  type DocumentNode,
  execute,
  type FieldDefinitionNode,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isCompositeType,
  isUnionType,
  Kind,
  type ObjectTypeDefinitionNode,
  parse,
  type TypeNode,
  visit,
} from "graphql";
import { Redis } from "ioredis";
import { cachedPlugin } from "../src/apollo/index.js";
import { applyCached, cachedTypeDefs, createCache } from "../src/index.js";
import { redisStore } from "../src/redis/index.js";
import { idlePlugin } from "./limits/idle-plugin.js";

type Sample = Record<string, number>;

const timeOf = (work: () => unknown): number => {
  const startedAt = performance.now();
  work();
  return performance.now() - startedAt;
};

/** Returns the names of the types that queries reach. Fields that only mutations reach cannot be cached. */
function typesOfQueries(schema: GraphQLSchema): ReadonlySet<string> {
  const names = new Set<string>();
  const pending: unknown[] = [schema.getQueryType()];
  for (let type = pending.pop(); type !== undefined; type = pending.pop()) {
    if (!isCompositeType(type) || names.has(type.name)) continue;
    names.add(type.name);
    if (isAbstractType(type)) pending.push(...schema.getPossibleTypes(type));
    if (!isUnionType(type)) for (const field of Object.values(type.getFields())) pending.push(getNamedType(field.type));
  }
  return names;
}

/** Returns GitHub's public schema (1,636 types) with `@cached` on every field that returns objects and that queries reach. */
function githubDocument(): DocumentNode {
  const file = new URL("../../node_modules/@octokit/graphql-schema/schema.graphql", import.meta.url);
  const sdl = parse(readFileSync(file, "utf8"), { noLocation: true });
  const types = buildASTSchema(sdl, { assumeValidSDL: true });
  const [sample] = parse('type T { f: Int @cached(maxAge: 60, key: ["$args", "$selection"]) }').definitions;
  const cached = (sample as ObjectTypeDefinitionNode).fields?.[0]?.directives ?? [];
  const nameOf = (type: TypeNode): string => (type.kind === Kind.NAMED_TYPE ? type.name.value : nameOf(type.type));
  const queried = typesOfQueries(types);
  const annotated = visit(sdl, {
    ObjectTypeDefinition: (type) => {
      // The published schema contains duplicate fields, which graphql-js rejects.
      const fields = [...new Map(type.fields?.map((field) => [field.name.value, field])).values()];
      const annotate = (field: FieldDefinitionNode): FieldDefinitionNode =>
        queried.has(type.name.value) && isCompositeType(types.getType(nameOf(field.type)))
          ? { ...field, directives: [...(field.directives ?? []), ...cached] }
          : field;
      return { ...type, fields: fields.map(annotate) };
    },
  });
  return { kind: Kind.DOCUMENT, definitions: [...parse(cachedTypeDefs).definitions, ...annotated.definitions] };
}

function measureGithubSchema(rounds: number): Sample[] {
  const document = githubDocument();
  const samples: Sample[] = [];
  for (let round = -3; round < rounds; round++) {
    let schema: GraphQLSchema | undefined;
    const build = timeOf(() => {
      schema = buildASTSchema(document);
    });
    const make = timeOf(() => makeExecutableSchema({ typeDefs: document }));
    const apply = timeOf(() => applyCached(schema as GraphQLSchema, createCache()));
    if (round >= 0) samples.push({ build, make, apply });
  }
  return samples;
}

const FILMS = Array.from({ length: 100 }, (_, id) => ({ id, title: `Film ${id}`, year: 1950 + (id % 70) }));
const TYPES = /* GraphQL */ `
  type Query { films: [Film!]! top: [Film!]! @cached(maxAge: 60) best: Person @cached(maxAge: 60) }
  type Film { id: ID! title: String! year: Int! slug: String! director: Person! rating: Float @cached(maxAge: 60) }
  type Person { id: ID! name: String! }
`;
const QUERY = "{ films { id title year slug director { id name } } }";
/** Requests per sample: what disturbs a machine disturbs long samples as much as short ones, so there are many short ones. */
const TIMES = 5;
const WARM_UP_ROUNDS = 40;

function filmSchema(): GraphQLSchema {
  const resolvers = {
    Query: { films: async () => FILMS, top: () => FILMS, best: () => null },
    Film: {
      slug: ({ title }: { title: string }) => title.toLowerCase(),
      director: async ({ id }: { id: number }) => ({ id, name: `Person ${id}` }),
      rating: () => 5,
    },
  };
  return makeExecutableSchema({ typeDefs: [cachedTypeDefs, TYPES], resolvers });
}

/**
 * Measures a query without cached fields on a server with the cache, on two servers without it, of which the second shows the
 * measurement noise, and on one without it whose plugin does nothing.
 */
async function measureUncachedFields(rounds: number, start: number): Promise<Sample[]> {
  const cache = createCache();
  const document = parse(QUERY);
  const makers: [string, () => GraphQLSchema][] = [
    ["plain", filmSchema],
    ["again", filmSchema],
    ["idle", filmSchema],
    ["ours", () => applyCached(filmSchema(), cache)],
  ];
  // Each process makes another one first.
  makers.push(...makers.splice(0, start % makers.length));
  const plugins: Record<string, ApolloServerPlugin[]> = { idle: [idlePlugin], ours: [cachedPlugin(cache)] };
  const work: Record<string, () => Promise<unknown>> = {};
  for (const [name, make] of makers) {
    const schema = make();
    const server = new ApolloServer({ schema, plugins: plugins[name] ?? [] });
    await server.start();
    work[`${name} graphql-js`] = async () => execute({ schema, document, contextValue: {} });
    work[`${name} Apollo`] = () => server.executeOperation({ query: QUERY }, { contextValue: {} });
  }
  const samples: Sample[] = [];
  const runs = Object.entries(work);
  for (let round = -WARM_UP_ROUNDS; round < rounds; round++) {
    const sample: Sample = {};
    // Each round begins with the next one. In reverse order every other time, the first and the last would follow themselves.
    runs.push(...runs.splice(0, 1));
    for (const [name, run] of runs) {
      const startedAt = performance.now();
      for (let time = 0; time < TIMES; time++) await run();
      sample[name] = (performance.now() - startedAt) / TIMES;
    }
    if (round >= 0) samples.push(sample);
  }
  await cache.close();
  return samples;
}

/** Returns the bytes of a list's JSON, and of its entry on the given Redis, for a list of fifty movies with fifty directors. */
async function measureEntityEntry(port: number): Promise<Sample[]> {
  const client = new Redis(port, "127.0.0.1");
  const prefix = "entity-entry";
  const logger = { info: (): void => undefined, warn: (): void => undefined };
  const cache = createCache({ store: redisStore({ client }), prefix, logger });
  const typeDefs = /* GraphQL */ `
    type Query { movies: [Movie!] @cached(maxAge: 3600) }
    type Movie { id: ID! title: String year: Int votes: Int rating: Float director: Director }
    type Director { id: ID! name: String }
  `;
  const movies = Array.from({ length: 50 }, (_, id) => ({
    id,
    title: `Film number ${id}`,
    year: 1950 + (id % 70),
    votes: 37 * id,
    rating: id / 10,
    director: { id, name: `Director number ${id}` },
  }));
  const resolvers = { Query: { movies: () => movies } };
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache, {
    entityTags: true,
  });
  const { errors } = await execute({ schema, document: parse("{ movies { id } }"), contextValue: {} });
  if (errors !== undefined) throw errors[0] as Error;
  const json = JSON.stringify(movies).length;
  let entry = 0;
  for (let time = 0; time < 100 && entry < json; time++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    for (const key of await client.keys(`${prefix}:*Query.movies*`))
      entry = Math.max(entry, await client.strlen(key).catch(() => 0));
  }
  await cache.close();
  client.disconnect();
  return [{ json, entry }];
}

const [, , name, argument, start] = process.argv;
const measurements: Readonly<Record<string, (argument: number, start: number) => Sample[] | Promise<Sample[]>>> = {
  "github-schema": measureGithubSchema,
  "no-cached-field": measureUncachedFields,
  "entity-entry": measureEntityEntry,
};
const samples = await measurements[name ?? ""]?.(Number(argument), Number(start));
console.log(JSON.stringify(samples));
process.exit(0);
