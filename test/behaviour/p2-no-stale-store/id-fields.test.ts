import { settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS } from "../../responses/site.js";
import { dataOf, memoryWorld } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(slug: String!): Movie @cached(maxAge: 60)
    ratings: [Rating!] @cached(maxAge: 60)
    typed(slug: String!): Movie
  }
  type Mutation {
    rename(slug: String!): Movie
    rate(movieId: ID!, userId: ID!): Rating
  }
  type Movie { slug: String! title: String critics: Int @cached(maxAge: 60) }
  type Rating { movieId: Int! userId: ID! stars: Int }
`;
const idFields = { Movie: "slug", Rating: ["movieId", "userId"] };

function start(world = memoryWorld(), options: object = { idFields }) {
  const loads: string[] = [];
  const load = <Value>(what: string, value: Value): Value => (loads.push(what), value);
  type Args = { readonly slug: string; readonly movieId: string; readonly userId: string };
  const process = world.process(
    typeDefs,
    {
      Query: {
        movie: (_: unknown, { slug }: Args) => load(`movie ${slug}`, { slug }),
        ratings: () => load("ratings", [{ movieId: 7, userId: "ann" }]),
        typed: (_: unknown, { slug }: Args, context: object) => movies(context).load(slug),
      },
      Movie: { critics: ({ slug }: Args) => load(`critics ${slug}`, 1) },
      Mutation: {
        rename: (_: unknown, { slug }: Args) => ({ slug }),
        rate: (_: unknown, { movieId, userId }: Args) => ({ movieId, userId }),
      },
    },
    {},
    { entityTags: true, ...options },
  );
  const movies = process.cache.loader({
    name: "Typed",
    maxAge: 60,
    type: "Movie",
    batch: async (slugs: readonly string[]) => slugs.map((slug) => load(`typed ${slug}`, { slug })),
  });
  const read = async (...queries: readonly string[]): Promise<void> => {
    for (const query of queries) await dataOf(process.ask(query, {}));
    await settle();
  };
  return { ...process, loads, read };
}

describe("the fields that identify objects of a type", () => {
  const READ = '{ movie(slug: "alien") { title critics } typed(slug: "alien") { title } ratings { stars } }';
  const CRITICS = '{ a: movie(slug: "alien") { critics } h: movie(slug: "heat") { critics } }';
  const rename = (slug: string) => `mutation { rename(slug: "${slug}") { title } }`;
  const rate = (userId: string) => `mutation { rate(movieId: 7, userId: "${userId}") { stars } }`;

  it("are those of entity tags, for fields, loaders and parents", async () => {
    const { read, loads } = start();
    await read(READ);
    expect(loads.splice(0).sort()).toEqual(["critics alien", "movie alien", "ratings", "typed alien"]);
    await read(rename("heat"), rate("ben"), READ);
    expect(loads).toEqual([]);
    await read(rename("alien"), READ);
    expect(loads.splice(0).sort()).toEqual(["critics alien", "movie alien", "typed alien"]);
    await read(rate("ann"), READ);
    expect(loads.splice(0)).toEqual(["ratings"]);
  });

  it("are the texts of tags in their order", async () => {
    const { read, loads, cache } = start();
    await read(READ);
    loads.length = 0;
    await cache.invalidateTags(["Rating:ann:7", "Movie:Alien"]);
    await read(READ);
    expect(loads).toEqual([]);
    await cache.invalidateTags(["Rating:7:ann", "Movie:alien"]);
    await read(READ);
    expect(loads).toHaveLength(4);
  });

  it("are part of the default keys of fields below, and of targets", async () => {
    const { read, loads, cache } = start();
    await read(CRITICS);
    expect(loads.filter((one) => one.startsWith("critics"))).toEqual(["critics alien", "critics heat"]);
    loads.length = 0;
    await cache.invalidate({ coordinate: "Movie.critics", source: { slug: "heat" } });
    await read(CRITICS);
    expect(loads).toEqual(["critics heat"]);
  });

  it("invalidate the fields of an object by an id that is a Date", async () => {
    let charts = 0;
    const rate = () => ({ currency: "EUR", day: new Date(0) });
    const { ask } = memoryWorld().process(
      "scalar Day type Rate { currency: String day: Day chart: Int @cached(maxAge: 60) } type Query { rate: Rate } type Mutation { set: Rate }",
      { Query: { rate }, Mutation: { set: rate }, Rate: { chart: () => ++charts } },
      {},
      { entityTags: true, idFields: { Rate: ["currency", "day"] } },
    );
    const chart = (): Promise<unknown> => dataOf(ask("{ rate { chart } }", {}));
    expect([await chart(), await chart()]).toEqual([{ rate: { chart: 1 } }, { rate: { chart: 1 } }]);
    await dataOf(ask("mutation { set { currency } }", {}));
    expect(await chart()).toEqual({ rate: { chart: 2 } });
  });

  it("are the same for two schemas that differ in nothing else, or entries are kept apart", async () => {
    const world = memoryWorld();
    const [one, other] = [start(world), start(world, { idFields: { ...idFields, Rating: ["userId", "movieId"] } })];
    await one.read("{ ratings { stars } }");
    await other.read("{ ratings { stars } }");
    expect([one.loads, other.loads]).toEqual([["ratings"], ["ratings"]]);
  });

  it("are reported if they have a resolver", async () => {
    const { ask, warnings } = memoryWorld().process(
      "type Query { movie: Movie @cached(maxAge: 60) } type Movie { a: ID b: ID }",
      { Query: { movie: () => ({ a: 1 }) }, Movie: { b: () => 2 } },
      {},
      { entityTags: true, idFields: { Movie: ["a", "b"] } },
    );
    await dataOf(ask("{ movie { a } }", {}));
    expect(warnings.join()).toContain("`Movie`: its `b` has a resolver");
  });

  it("are wanted in exceptTypes, which has the names of entities", () => {
    expect(() => start(undefined, { entityTags: { exceptTypes: ["Movie"] }, idFields })).not.toThrow();
  });
});

describe.each(SERVERS)("whole responses on %s", (server) => {
  it("are invalidated by what identifies their objects, whatever was selected", async () => {
    let executions = 0;
    const sdl =
      "type Query { movie: Movie @cacheControl(maxAge: 60) } type Mutation { rename(slug: String!): Movie } type Movie { slug: String title: String }";
    const resolvers = {
      Query: { movie: () => ({ slug: "alien", title: `Alien ${++executions}` }) },
      Mutation: { rename: (_: unknown, { slug }: { slug: string }) => ({ slug }) },
    };
    const applied = { entityTags: true, idFields: { Movie: "slug" } };
    const { ask } = openSite({ typeDefs: sdl, resolvers, server, applied });
    await ask("{ movie { title } }");
    await ask('mutation { rename(slug: "heat") { title } }');
    await ask("{ movie { title } }");
    expect(executions).toBe(1);
    await ask('mutation { rename(slug: "alien") { title } }');
    await ask("{ movie { title } }");
    expect(executions).toBe(2);
  });
});
