import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { cachedTypeDefs } from "graphql-cached";
import { expect, it } from "vitest";
import { onEachStore, type Process, type World } from "../../support/world.js";

/** One release: its schema below `Query`, what its resolvers return, and a query that shows everything. */
interface Release {
  readonly typeDefs: string;
  readonly movie: unknown;
  readonly query: string;
  readonly resolvers?: Readonly<Record<string, object>>;
}

const MOVIE = { id: "7", title: "Alien", year: 1979 };
const ROOT = 'type Query { movie(id: ID! = "7"): Movie @cached(maxAge: 60) }';
const OLD: Release = {
  typeDefs: `${ROOT} type Movie { id: ID! title: String! year: Int }`,
  movie: MOVIE,
  query: "{ movie { id title year } }",
};
const COLORS = "{ movie { color } }";
const MEDIA = "{ movie { __typename ... on Film { title } ... on Series { seasons } } }";
const FILM = "type Film { title: String! } type Series { seasons: Int! }";

/** A change between two releases, by what it is called in a changelog. */
const CHANGES: Readonly<Record<string, readonly [old: Release, next: Release]>> = {
  "a field is added": [
    OLD,
    {
      typeDefs: `${ROOT} type Movie { id: ID! title: String! year: Int rating: Float }`,
      movie: { ...MOVIE, rating: 8.5 },
      query: "{ movie { id title year rating } }",
    },
  ],
  "a field is renamed": [
    OLD,
    {
      typeDefs: `${ROOT} type Movie { id: ID! name: String! year: Int }`,
      movie: { id: "7", name: "Alien", year: 1979 },
      query: "{ movie { id name year } }",
    },
  ],
  "a field becomes non-null": [
    { ...OLD, movie: { ...MOVIE, year: null } },
    { ...OLD, typeDefs: `${ROOT} type Movie { id: ID! title: String! year: Int! }` },
  ],
  "a field becomes a list": [
    OLD,
    {
      ...OLD,
      typeDefs: `${ROOT} type Movie { id: ID! title: String! year: [Int!] }`,
      movie: { ...MOVIE, year: [1979, 1980] },
    },
  ],
  "a value of an enum is removed": [
    {
      typeDefs: `${ROOT} type Movie { color: Color } enum Color { RED GREEN }`,
      movie: { color: "GREEN" },
      query: COLORS,
    },
    { typeDefs: `${ROOT} type Movie { color: Color } enum Color { RED }`, movie: { color: "RED" }, query: COLORS },
  ],
  "a member of a union is removed": [
    {
      typeDefs: `${ROOT} ${FILM} union Movie = Film | Series`,
      movie: { __typename: "Series", seasons: 3 },
      query: MEDIA,
    },
    {
      typeDefs: `${ROOT} ${FILM} union Movie = Film`,
      movie: { __typename: "Film", title: "Alien" },
      query: "{ movie { __typename ... on Film { title } } }",
    },
  ],
  "a field that reads its parent gets a resolver": [
    {
      ...OLD,
      typeDefs: `${ROOT} type Movie { id: ID! title: String! year: Int label: String }`,
      movie: { ...MOVIE, label: "SF" },
      query: "{ movie { label } }",
    },
    {
      typeDefs: `${ROOT} type Movie { id: ID! title: String! year: Int label: String }`,
      movie: { ...MOVIE, labels: ["SF", "Horror"] },
      query: "{ movie { label } }",
      resolvers: { Movie: { label: ({ labels }: { labels: string[] }) => labels[1] } },
    },
  ],
  "a type two levels below changes": [
    {
      typeDefs: `${ROOT} type Movie { studio: Studio } type Studio { owner: Person } type Person { name: String }`,
      movie: { studio: { owner: { name: "A" } } },
      query: "{ movie { studio { owner { name } } } }",
    },
    {
      typeDefs: `${ROOT} type Movie { studio: Studio } type Studio { owner: Person } type Person { first: String }`,
      movie: { studio: { owner: { first: "A" } } },
      query: "{ movie { studio { owner { first } } } }",
    },
  ],
};

/** Starts a process of a release, with a source that counts its loads. */
function start(world: World, { typeDefs, movie, resolvers = {} }: Release): Process & { loads(): number } {
  let loads = 0;
  const root = { movie: () => (loads++, structuredClone(movie)) };
  return Object.assign(world.process(typeDefs, { Query: root, ...resolvers }), { loads: () => loads });
}

const answer = async (result: Promise<unknown>): Promise<unknown> => JSON.parse(JSON.stringify(await result));

/** What a release answers without a cache. */
function expectedOf({ typeDefs, movie, query, resolvers = {} }: Release): Promise<unknown> {
  const schema = makeExecutableSchema({
    typeDefs: [cachedTypeDefs, typeDefs],
    resolvers: { Query: { movie: () => movie }, ...resolvers },
  });
  return answer(graphql({ schema, source: query }));
}

onEachStore("two releases that share a store", (world) => {
  it.each(Object.entries(CHANGES))("answer as without a cache, in either direction, when %s", async (_change, pair) => {
    for (const [first, second] of [pair, [...pair].reverse()] as (readonly [Release, Release])[]) {
      const shared = world();
      const processes = [start(shared, first), start(shared, second)] as const;
      for (const [process, release] of [
        [processes[0], first],
        [processes[1], second],
        [processes[0], first],
        [processes[1], second],
      ] as const)
        expect(await answer(process.ask(release.query))).toEqual(await expectedOf(release));
    }
  });

  it("load each key once per release if they differ in `tags`, instead of replacing each other's entries", async () => {
    const shared = world();
    const tagged = (tags: string): Release => ({
      ...OLD,
      typeDefs: OLD.typeDefs.replace("maxAge: 60", `maxAge: 60, tags: [${tags}]`),
    });
    const processes = [start(shared, OLD), start(shared, tagged('"Movies"')), start(shared, tagged('"Films"'))];
    for (let round = 0; round < 5; round++) for (const { ask } of processes) await answer(ask(OLD.query));
    expect(processes.map(({ loads }) => loads())).toEqual([1, 1, 1]);
  });
});
