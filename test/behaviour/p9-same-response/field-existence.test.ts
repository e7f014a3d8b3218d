import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { type ApplyCachedOptions, applyCached, type CacheOptions } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { errorOf } from "../../support/listen.js";
import { dataOf, memoryWorld } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60)
    year(filter: YearFilter): Int @cached(maxAge: 60)
    any(ids: [ID!], filter: YearFilter, more: JSON): Int @cached(maxAge: 60)
    sure(id: ID!): Int! @cached(maxAge: 60)
    plain(id: ID!): Int
    first: Movie
  }
  type Movie {
    id: ID
    genres: [String!]
    sequel: Movie @cached(maxAge: 60)
  }
  input YearFilter {
    year: Int
    list: [YearFilter!]
  }
  scalar JSON
`;

/** A site whose movies exist as far as `existing` says, and a guard that knows it. */
function createSite(
  existsOf?: (guard: { has(ids: readonly unknown[]): Promise<boolean[]> }) => unknown,
  options: CacheOptions<never> = {},
) {
  const existing = new Set<unknown>(["7", 1927]);
  const checked: unknown[][] = [];
  const loads: unknown[] = [];
  const state = { hold: Promise.resolve() as Promise<unknown> };
  const guard = {
    has: async (ids: readonly unknown[]) => {
      checked.push([...ids]);
      const answers = ids.map((id) => existing.has(id));
      await state.hold;
      return answers;
    },
  };
  const load = (id: unknown) => (loads.push(id), existing.has(id) ? { id } : null);
  const resolvers = {
    Query: {
      movie: (_: unknown, { id }: { id: string }) => load(id),
      year: (_: unknown, { filter }: { filter?: { year?: number } }) => (load(filter?.year) === null ? null : 1),
      first: () => ({ id: 7 }),
    },
    Movie: { sequel: ({ id }: { id: unknown }) => load(id) },
  };
  const exists = existsOf === undefined ? { "Query.movie": { id: "$args.id", guard } } : existsOf(guard);
  const process = memoryWorld().process(typeDefs, resolvers, options, { exists } as ApplyCachedOptions);
  return { ...process, existing, checked, loads, state, guard };
}

describe("exists for a field", () => {
  it("answers null without a load for ids that the guard excludes, and checks the ids of a tick together", async () => {
    const { ask, checked, loads, events } = createSite();
    const query = "{ a: movie(id: 7) { id } b: movie(id: 8) { id } c: movie(id: 9) { id } d: movie(id: 8) { id } }";
    expect(await dataOf(ask(query))).toEqual({ a: { id: "7" }, b: null, c: null, d: null });
    expect(checked).toEqual([["7", "8", "9"]]);
    expect(loads).toEqual(["7"]);
    const reasons = events.flatMap((event) => (event.name === "resolver.bypassed" ? [event.reason] : []));
    expect(new Set(reasons)).toEqual(new Set(["DOES_NOT_EXIST"]));
    await settle();
    expect(await dataOf(ask("{ movie(id: 7) { id } }"))).toEqual({ movie: { id: "7" } });
    expect(checked).toHaveLength(1);
  });

  it("keeps no absence: an id that the guard has learned is loaded by the next request", async () => {
    const { ask, existing, state, loads } = createSite();
    const { passed, open } = gate();
    state.hold = passed;
    const before = ask("{ movie(id: 8) { id } }");
    await settle();
    existing.add("8");
    const after = ask("{ movie(id: 8) { id } }");
    await settle();
    open();
    expect(await dataOf(before)).toEqual({ movie: null });
    expect(await dataOf(after)).toEqual({ movie: { id: "8" } });
    expect(loads).toEqual(["8"]);
  });

  it("loads after `leaseWaitMs` what the guard has not answered for by then", async () => {
    const clock = new FakeClock();
    const { ask, loads } = createSite(
      () => ({ "Query.movie": { id: "$args.id", guard: { has: () => new Promise(() => undefined) } } }),
      { testing: { clock }, leases: { leaseWaitMs: 2_000 } },
    );
    const asked = ask("{ movie(id: 7) { id } }");
    await clock.advance(1_900);
    expect(loads).toEqual([]);
    await clock.advance(200);
    expect(loads).toEqual(["7"]);
    expect(await dataOf(asked)).toEqual({ movie: { id: "7" } });
    expect(await dataOf(ask("{ movie(id: 7) { id } }"))).toEqual({ movie: { id: "7" } });
    expect(loads).toEqual(["7"]);
  });

  it("finds ids in input objects and in the parent, and checks nothing where there is none", async () => {
    const { ask, checked, loads } = createSite((guard) => ({
      "Query.year": { id: "$args.filter.year", guard },
      "Movie.sequel": { id: "$source.id", guard },
    }));
    expect(await dataOf(ask("{ a: year(filter: { year: 1927 }) b: year(filter: { year: 1 }) c: year }"))).toEqual({
      a: 1,
      b: null,
      c: null,
    });
    expect(checked).toEqual([[1927, 1]]);
    expect(loads).toEqual([undefined, 1927]);
    expect(await dataOf(ask("{ first { sequel { id } } }"))).toEqual({ first: { sequel: null } });
    // The parent has the number 7; an ID is checked as GraphQL writes it.
    expect(checked[1]).toEqual(["7"]);
  });

  it("does not ask the guard for a value that a caller wants to be loaded", async () => {
    const { ask, cache, checked } = createSite();
    await ask("{ movie(id: 7) { id } }", {});
    const context = {};
    cache.override(context, "REFRESH");
    await ask("{ movie(id: 7) { id } }", context);
    expect(checked).toHaveLength(1);
  });

  it("is refused with all mistakes at once", () => {
    const messageOf = (exists: unknown): string => errorOf(() => createSite(() => exists)).message;
    const guard = { has: async () => [] };
    expect(messageOf([])).toContain("`exists`: expected an object of coordinates");
    const message = messageOf({
      "Query.plain": { id: "$args.id", guard },
      "Query.sure": { id: "$args.id", guard },
      "Query.movie": { id: "$args.name", guard: {}, ids: 1 },
      "Query.year": { id: "$args.filter[].year", guard },
      "Movie.sequel": { id: "$source", guard },
    });
    for (const part of [
      'exists["Query.plain"]`: expected the coordinate of a cached field',
      'exists["Query.sure"]`: expected a field that can be null, got one of the type Int!',
      'exists["Query.movie"].id`: `$args.name`: unknown argument or input field `name`; expected one of `id`',
      'exists["Query.movie"].guard`: expected an object with the method has',
      'exists["Query.movie"].ids`: unknown property; expected `id` and `guard`',
      'exists["Query.year"].id`: expected the path of an id, such as $args.id or $source.id, got "$args.filter[].year"',
      'exists["Movie.sequel"].id`: expected the path of an id',
    ])
      expect(message).toContain(part);
  });

  it.each([
    ["Query.any", "$args.ids", "expected a single value, got one of the type [ID!]"],
    ["Query.any", "$args.filter", "expected a single value, got one of the type YearFilter"],
    ["Query.any", "$args.filter.list", "expected a single value, got one of the type [YearFilter!]"],
    ["Query.any", "$args.filter.years", "unknown argument or input field `years`; expected one of `year`, `list`"],
    ["Query.any", "$args.filter.list.year", "expected a single value, got one of the type [YearFilter!]"],
    ["Query.any", "$args.filter.year.of", "expected an object, got a value of type `Int`, which has no fields"],
    ["Movie.sequel", "$source.idd", "unknown field `idd` of `Movie`; did you mean `id`?"],
    ["Movie.sequel", "$source.genres", "expected a single value, got one of the type [String!]"],
  ])("is refused for %s if its path is %s, which leads to no id", (coordinate, id, mistake) => {
    const exists = { [coordinate]: { id, guard: { has: async () => [] } } };
    expect(() => createSite(() => exists)).toThrow(`exists["${coordinate}"].id\`: \`${id}\`: ${mistake}`);
  });

  it.each([
    ["Query.any", "$args.more.id"],
    ["Movie.sequel", "$source.sequelId"],
    ["Movie.sequel", "$source.sequel"],
  ])("is accepted for %s if its path is %s, of which the schema does not say what it leads to", (coordinate, id) => {
    const exists = { [coordinate]: { id, guard: { has: async () => [] } } };
    expect(() => createSite(() => exists)).not.toThrow();
  });

  it("is refused for a schema in which the field is cached already", () => {
    const { schema, cache, guard } = createSite(() => ({}));
    const exists = { "Query.movie": { id: "$args.id", guard } };
    expect(() => applyCached(schema, cache, { exists })).toThrow("pass `exists` the first time");
  });
});
