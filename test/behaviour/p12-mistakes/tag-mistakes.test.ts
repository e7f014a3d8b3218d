// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the placeholders of JavaScript are among the mistakes.
import { GraphQLScalarType, graphql } from "graphql";
import { type ApplyCachedOptions, applyCached, type Cache, resultControl } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { errorOf, listen, mistakeIn, schemaOf } from "../../support/listen.js";

describe("a tag that is written as a key is, or as text of JavaScript", () => {
  const expected = "expected tags such as Movie:{$args.id} or Movie:{$result[].id}, got";

  it.each([
    "Movie:$args.id",
    "Movie:$result[].id",
    "$args.id",
    "Movie:$args.id:$args.part",
    "Movie:{$args.id}:$args.part",
    "Movie:${args.id}",
    "Movie:${$args.id}",
    "Movie:$id",
    "Movie:{id}",
    "Movie:{args.id}",
    "Movie:{ $args.id }",
    "Movie:{{$args.id}}",
    "A{",
  ])("is refused in @cached, @invalidates and extensions: %s", (tag) => {
    const mistake = `\`tags\`: ${expected} "${tag}"`;
    const args = "(id: ID, part: ID)";
    expect(
      mistakeIn(`type Query { a${args}: [Thing] @cached(maxAge: 1, tags: ["${tag}"]) } type Thing { id: ID }`),
    ).toBe(`@cached on \`Query.a\`: ${mistake}`);
    const mutation = `type Query { a: Int } type Mutation { b${args}: [Thing] @invalidates(tags: ["${tag}"]) } type Thing { id: ID }`;
    expect(mistakeIn(mutation)).toBe(`@invalidates on \`Mutation.b\`: ${mistake}`);
    const schema = schemaOf(`type Query { a${args}: [Thing] } type Thing { id: ID }`);
    Object.assign(schema.getQueryType()?.getFields().a ?? {}, { extensions: { cached: { maxAge: 1, tags: [tag] } } });
    expect(() => applyCached(schema, listen().cache)).toThrow(`@cached on \`Query.a\`: ${mistake}`);
  });

  it("is accepted if a dollar sign is just a dollar sign", () => {
    expect(mistakeIn('type Query { a: Int @cached(maxAge: 1, tags: ["US$", "$5", "a$-b"]) }')).toBe("accepted");
  });

  it.each(["{$args.id}", "${args.id}", "args.id", "{args.id}", "id", "$id"])(
    "is refused as a part of a key: %s",
    (part) => {
      expect(mistakeIn(`type Query { a(id: ID): Int @cached(maxAge: 1, key: ["${part}"]) }`)).toBe(
        `@cached on \`Query.a\`: \`key\`: expected paths such as $args.id, $source.id, $context.locale or $selection, got "${part}"`,
      );
    },
  );
});

describe("a path that the types cannot have", () => {
  const types = `
    type Movie { id: ID! title: String! genre: Genre poster: Json cast: [Person!]! maker: Studio scenes: [[Scene!]!] }
    type Person { id: ID! name: String! }
    type Studio { id: ID! }
    type Scene { id: ID! }
    type MovieConnection { edges: [MovieEdge!]! pageInfo: PageInfo! }
    type MovieEdge { node: Movie cursor: String! }
    type PageInfo { hasNextPage: Boolean! }
    type MoviePayload { movie: Movie errors: [String!] }
    enum Genre { DRAMA }
    scalar Json
    interface Node { id: ID! }
    type Page implements Node { id: ID! path: String }
    union Found = Movie | Person
    input Filter { id: ID ids: [ID!] inner: Filter }
  `;
  const other = "for a property that is no field, add the tag with resultControl(info).set({ tags })";
  const unknown = (path: string, field: string, type: string, known: string): string =>
    `\`${path}\`: unknown field \`${field}\` of \`${type}\`; expected one of ${known}; ${other}`;
  const notList = (path: string, got: string, remedy: string): string =>
    `\`${path}\`: expected a list before [], got a value of type \`${got}\`; write ${remedy}`;
  const list = (path: string, got: string, remedy: string): string =>
    `\`${path}\`: expected [] for the members of a list, which a value of type \`${got}\` is; write ${remedy}`;
  const movie = "`id`, `title`, `genre`, `poster`, `cast`, `maker`, `scenes`";
  const leaf = (path: string, type: string): string =>
    `\`${path}\`: expected an object, got a value of type \`${type}\`, which has no fields`;
  const whole = (path: string, type: string, remedy: string): string =>
    `\`${path}\`: expected a single value, got an object of type \`${type}\`, which yields no tag; write ${remedy}`;

  /** The type of the field, the path, and the mistake. */
  const RESULTS: readonly [type: string, path: string, mistake: string][] = [
    ["Movie", "$result.idd", unknown("$result.idd", "idd", "Movie", movie)],
    ["Movie!", "$result.cast[].nam", unknown("$result.cast[].nam", "nam", "Person", "`id`, `name`")],
    ["[Movie]", "$result[].ide", unknown("$result[].ide", "ide", "Movie", movie)],
    ["Node", "$result.idd", unknown("$result.idd", "idd", "Node", "`id`, `path`")],
    ["Found", "$result.titel", unknown("$result.titel", "titel", "Found", `${movie}, \`name\``)],
    ["MoviePayload", "$result.id", unknown("$result.id", "id", "MoviePayload", "`movie`, `errors`")],
    ["Movie", "$result[].id", notList("$result[].id", "Movie", "$result.id")],
    ["Movie", "$result.maker[].id", notList("$result.maker[].id", "Studio", "$result.maker.id")],
    ["ID", "$result[]", notList("$result[]", "ID", "$result")],
    [
      "MovieConnection",
      "$result[].node.id",
      notList("$result[].node.id", "MovieConnection", "$result.edges[].node.id"),
    ],
    ["MovieConnection!", "$result[].id", notList("$result[].id", "MovieConnection!", "$result.edges[].node.id")],
    ["[Movie!]!", "$result.id", list("$result.id", "[Movie!]!", "$result[].id")],
    [
      "MovieConnection",
      "$result.edges.node.id",
      list("$result.edges.node.id", "[MovieEdge!]!", "$result.edges[].node.id"),
    ],
    ["[ID!]", "$result", list("$result", "[ID!]", "$result[]")],
    ["Movie", "$result.scenes[].id", list("$result.scenes[].id", "[Scene!]!", "$result.scenes[][].id")],
    ["Movie", "$result.title.length", leaf("$result.title.length", "String!")],
    ["Movie", "$result.genre.id", leaf("$result.genre.id", "Genre")],
    ["Movie", "$result", whole("$result", "Movie", "$result.id")],
    ["[Movie!]", "$result[]", whole("$result[]", "Movie!", "$result[].id")],
    ["MoviePayload", "$result", whole("$result", "MoviePayload", "the path to a field of it")],
    ["Movie", "$args.filter", whole("$args.filter", "Filter", "$args.filter.id")],
    ["Movie", "$args.filter.inner", whole("$args.filter.inner", "Filter", "$args.filter.inner.id")],
    ["Movie", "$args.ids", list("$args.ids", "[ID!]", "$args.ids[]")],
    ["Movie", "$args.filter.ids", list("$args.filter.ids", "[ID!]", "$args.filter.ids[]")],
    ["Movie", "$args.filters.id", list("$args.filters.id", "[Filter!]", "$args.filters[].id")],
    ["Movie", "$args.id[]", notList("$args.id[]", "ID", "$args.id")],
    ["Movie", "$args.id.value", leaf("$args.id.value", "ID")],
  ];

  it.each(RESULTS)(
    "is refused at start-up, in @cached and @invalidates: a field of type %s, the path %s",
    async (type, path, mistake) => {
      const args = "(id: ID, ids: [ID!], filter: Filter, filters: [Filter!])";
      const tags = `(tags: ["T:{${path}}"])`;
      const cached = `type Query { a${args}: ${type} @cached(maxAge: 1, tags: ["T:{${path}}"]) } ${types}`;
      const mutation = `type Query { a: Movie } type Mutation { b${args}: ${type} @invalidates${tags} } ${types}`;
      const ofMutation = mistake.replace(
        other,
        "for a property that is no field, call cache.invalidateTags in the resolver",
      );
      expect(mistakeIn(cached)).toBe(`@cached on \`Query.a\`: ${mistake}`);
      expect(mistakeIn(mutation)).toBe(`@invalidates on \`Mutation.b\`: ${ofMutation}`);
    },
  );

  it.each([
    ["Movie", "$result.id"],
    ["Movie", "$result.poster.anything[].id"],
    ["Movie", "$result.poster"],
    ["[Movie!]!", "$result[].cast[].id"],
    ["MovieConnection", "$result.edges[].node.id"],
    ["Node", "$result.path"],
    ["Found", "$result.name"],
    ["ID", "$result"],
    ["[ID]", "$result[]"],
    ["Movie", "$args.filters[].ids[]"],
    ["Movie", "$args.json.anything"],
    ["Movie", "$context.tenant.id"],
  ])("is none of those that they can have: a field of type %s, the path %s", (type, path) => {
    const args = "(id: ID, filters: [Filter!], json: Json)";
    expect(mistakeIn(`type Query { a${args}: ${type} @cached(maxAge: 1, tags: ["T:{${path}}"]) } ${types}`)).toBe(
      "accepted",
    );
  });

  it("is refused in a key, which a list or a value without fields would make unusable", () => {
    const mistakeOf = (key: string): string =>
      mistakeIn(`type Query { a(id: ID, filters: [Filter!]): Int @cached(maxAge: 1, key: ["${key}"]) } ${types}`);
    expect(mistakeOf("$args.filters.id")).toBe(
      "@cached on `Query.a`: `$args.filters.id`: expected a path that ends at a list, got one that leads through a value of type `[Filter!]`; write $args.filters",
    );
    expect(mistakeOf("$args.id.value")).toBe(`@cached on \`Query.a\`: ${leaf("$args.id.value", "ID")}`);
    expect(mistakeOf("$args.filters")).toBe("accepted");
  });

  it("is refused for the parent object if it looks like a misspelt field", () => {
    const sdl = (tag: string): string =>
      `type Query { m: Movie } type Movie { id: ID! title: String stars: Int @cached(maxAge: 1, tags: ["T:{${tag}}"]) }`;
    const resolvers = { Movie: { stars: () => 1 } };
    const apply = (tag: string) => () => applyCached(schemaOf(sdl(tag), resolvers), listen().cache);
    expect(apply("$source.idd")).toThrow(
      "@cached on `Movie.stars`: `$source.idd`: unknown field `idd` of `Movie`; did you mean `id`?",
    );
    for (const path of ["$source._id", "$source.uid", "$source.ids", "$source.titleId", "$source.TITLE"])
      expect(apply(path)).not.toThrow();
  });

  describe("where resolvers read other properties than the fields", () => {
    const sdl = (path: string): string => `
      type Query { movie(id: ID): Movie @cached(maxAge: 60, tags: ["Movie:{${path}}"]) movies: [Movie!] @cached(maxAge: 60, tags: ["All:{$result[].dbId}"]) }
      type Mutation { rate: Movie @invalidates(tags: ["Movie:{${path}}"]) }
      type Movie { id: ID! title: String director: Person stars: Int @cached(maxAge: 60, key: ["$source._id"], tags: ["M:{$source.dbId}"]) }
      type Person { id: ID! }
    `;
    const row = { _id: 7, title: "Alien" };
    const resolvers = {
      Query: { movie: () => row, movies: () => [row, row] },
      Mutation: { rate: () => row },
      Movie: { id: ({ _id }: typeof row) => _id, director: () => ({ id: 1 }), stars: () => 5 },
    };

    it("yields tags of these properties", async () => {
      const { cache, warnings } = listen();
      const schema = applyCached(schemaOf(sdl("$result._id"), resolvers), cache);
      const invalidated: unknown[] = [];
      for (const source of ["{ movie { title } }", "mutation { rate { title } }"])
        invalidated.push((await graphql({ schema, source })).errors);
      expect(invalidated).toEqual([undefined, undefined]);
      expect(warnings.filter((line) => line.includes("$result._id"))).toEqual([]);
    });

    it("is reported once if they are missing, for each field", async () => {
      const { cache, warnings, events } = listen();
      const schema = applyCached(schemaOf(sdl("$result.director.id"), resolvers), cache);
      const queries = ["{ movie { title } }", "{ movies { stars } }", "mutation { rate { title } }"];
      for (const source of [...queries, ...queries]) {
        await graphql({ schema, source, contextValue: {} });
        await cache.clear();
      }
      const missing = (place: string, tag: string, path: string, property: string): string =>
        `${place}: \`tags\`: \`${tag}\` yields no tag, since the value at \`${path}\` has no property \`${property}\`; correct the path, or return an object with it`;
      const expected = [
        missing("@cached on `Query.movie`", "Movie:{$result.director.id}", "$result", "director"),
        missing("@cached on `Query.movies`", "All:{$result[].dbId}", "$result[]", "dbId"),
        missing("@cached on `Movie.stars`", "M:{$source.dbId}", "$source", "dbId"),
        missing("@invalidates on `Mutation.rate`", "Movie:{$result.director.id}", "$result", "director"),
      ];
      expect(warnings.filter((line) => line.includes("yields no tag"))).toEqual(expected.map((line) => `${line}`));
      expect(events.filter(({ name }) => name === "tag.mistaken")).toEqual(
        ["Query.movie", "Query.movies", "Movie.stars", "Mutation.rate"].map((coordinate, index) => ({
          name: "tag.mistaken",
          coordinate,
          digest: "",
          error: expect.objectContaining({ code: "CACHED_POLICY_INVALID", message: expected[index] }),
        })),
      );
    });

    it("is reported once if they lead to a value without a text, whatever has it", async () => {
      class ObjectId {}
      const { cache, warnings } = listen();
      const scalar = new GraphQLScalarType({ name: "ObjectId", parseValue: () => new ObjectId() });
      const schema = applyCached(
        schemaOf(
          `
            scalar ObjectId
            scalar Day
            type Query { film(id: ObjectId): Int @cached(maxAge: 60, key: [], tags: ["F:{$args.id}"]) days: [Shown] @cached(maxAge: 60, tags: ["Day:{$result[].day}"]) }
            type Shown { day: Day }
            type Mutation { show(id: ObjectId): Int @invalidates(tags: ["F:{$args.id}"]) }
          `,
          {
            ObjectId: scalar,
            Query: { film: () => 1, days: () => [{ day: new Date(0) }] },
            Mutation: { show: () => 1 },
          },
        ),
        cache,
      );
      for (const source of ['{ film(id: "a") }', "{ days { day } }", 'mutation { show(id: "a") }'])
        for (let nth = 0; nth < 2; nth++)
          expect((await graphql({ schema, source, contextValue: {} })).errors).toBe(undefined);
      const textless = (place: string, tag: string, path: string, type: string): string =>
        `${place}: \`tags\`: \`${tag}\` yields no tag, since the value at \`${path}\` is an instance of ${type}, and not a string or a number; name a path to one, or give its class a \`keyOf\` in createCache({ types })`;
      expect(warnings.filter((line) => line.includes("yields no tag"))).toEqual([
        textless("@cached on `Query.film`", "F:{$args.id}", "$args.id", "ObjectId"),
        textless("@cached on `Query.days`", "Day:{$result[].day}", "$result[].day", "Date"),
        textless("@invalidates on `Mutation.show`", "F:{$args.id}", "$args.id", "ObjectId"),
      ]);
    });

    it("is not reported if a value is null, or a list is empty", async () => {
      const { cache, warnings } = listen();
      const schema = applyCached(
        schemaOf(sdl("$result.director.id"), {
          ...resolvers,
          Query: { movie: () => null, movies: () => [] },
          Mutation: { rate: () => ({ director: null }) },
        }),
        cache,
      );
      for (const source of ["{ movie { title } }", "{ movies { title } }", "mutation { rate { title } }"])
        await graphql({ schema, source });
      expect(warnings.filter((line) => line.includes("yields no tag"))).toEqual([]);
    });
  });
});

/** The ways to name a tag in a call: from code, and around a write. */
const CALLS: Readonly<Record<string, (cache: Cache, tags: readonly string[]) => Promise<unknown>>> = {
  "cache.invalidateTags": (cache, tags) => cache.invalidateTags(tags),
  "cache.mutate": (cache, tags) => cache.mutate({ tags }, () => "written"),
};

describe("a tag that cannot be meant", () => {
  const template =
    "got the template of one, which only `@cached` and `@invalidates` fill in; write the value itself, such as `Movie:${id}`";
  const missing =
    "got one with the text of a missing value (undefined, null, NaN or [object Object]) as a part; check what it is made of";
  const wildcard =
    "got one with `*`, but tags have no wildcards; name each tag, or the type, as in `Movie`, for all tags that begin with `Movie:`, or invalidate all entries of a field or loader";
  const TEMPLATES = ["Movie:{$args.id}", "Movie:$args.id", "Movie:{$result[].id}", "{$source.id}", "Movie:${args.id}"];
  const MISSING = [undefined, null, Number.NaN, {}, "7:undefined"].map((value) => `Movie:${value}`);
  const WILDCARDS = ["Movie:*", "Movie*", "*", "Movie:*:cast", "Movie:7*"];
  const withProblem = (tags: readonly string[], problem: string) =>
    tags.map((tag) => [tag, `\`tags\`: expected tags such as "Movie:7", ${problem}`] as const);
  const PLAIN = [
    ...withProblem([...MISSING, "undefined:7", "undefined"], missing),
    ...withProblem(WILDCARDS, wildcard),
  ] as const;
  const GIVEN = [...PLAIN, ...withProblem(TEMPLATES, template)];
  // An entry of `Movie:*` is one that has the tags of entities.
  const isOfValues = ([tag]: readonly [string, string]): boolean => tag !== "Movie:*";

  it.each(GIVEN)("is refused by every call, which invalidates nothing: %s", async (tag, problem) => {
    for (const [name, call] of Object.entries(CALLS)) {
      const { cache, events } = listen();
      await expect(call(cache, ["Movie:1", tag])).rejects.toMatchObject({
        code: "CACHED_OPTION_INVALID",
        message: `${name}: ${problem}`,
      });
      expect(events.filter((event) => event.name === "invalidation.finished")).toEqual([]);
    }
  });

  it.each(GIVEN)("is refused by cache.edgeTags, alone and among others: %s", (tag, problem) => {
    const { cache } = listen();
    for (const tags of [[tag], ["Movie:1", tag]])
      expect(errorOf(() => cache.edgeTags(tags))).toMatchObject({
        code: "CACHED_OPTION_INVALID",
        message: `cache.edgeTags: ${problem}`,
      });
  });

  it.each(PLAIN)("is refused at start-up in @cached and @invalidates: %s", (tag, problem) => {
    expect(mistakeIn(`type Query { a: Int } type Mutation { b: Int @invalidates(tags: ["${tag}"]) }`)).toBe(
      `@invalidates on \`Mutation.b\`: ${problem}`,
    );
    if (isOfValues([tag, problem]))
      expect(mistakeIn(`type Query { a: Int @cached(maxAge: 1, tags: ["${tag}"]) }`)).toBe(
        `@cached on \`Query.a\`: ${problem}`,
      );
  });

  it.each(GIVEN.filter(isOfValues))("is refused for values of loaders, and in results: %s", async (tag, problem) => {
    const { cache, warnings } = listen();
    const batch = async (ids: readonly number[]) => ids;
    const loader = cache.loader({ name: "Movie", maxAge: 60, tags: () => [tag], batch });
    for (let request = 0; request < 2; request++) expect(await loader({}).load(7)).toBe(7);
    expect(warnings).toEqual([`cache.loader("Movie"): a value is not cached: ${problem}`]);
    const movie = (_: unknown, __: unknown, ___: unknown, info: never): void =>
      resultControl(info).set({ tags: [tag] });
    const sdl = "type Query { movie: Int @cached(maxAge: 60) }";
    const schema = applyCached(schemaOf(sdl, { Query: { movie } }), cache);
    const { errors } = await graphql({ schema, source: "{ movie }" });
    expect(errors?.[0]?.message).toBe(`\`Query.movie\`: set() of its result: ${problem}`);
  });

  it.each(["Post:what-is-null", "Post:undefined-behaviour", "User:nullable", "3*4=12", "Movie:banana"])(
    "is not one that only contains such a word or sign: %s",
    async (tag) => {
      for (const call of Object.values(CALLS)) await call(listen().cache, [tag]);
      expect(listen().cache.edgeTags([tag])).not.toEqual([]);
      expect(mistakeIn(`type Query { a: Int @cached(maxAge: 1, tags: ["${tag}"]) }`)).toBe("accepted");
    },
  );

  it("is not the name of a type whose tags values have", async () => {
    const sdl = `type Query { movies: [Movie!] @cached(maxAge: 60) people: [Person!] @cached(maxAge: 60, tags: ["Person:*"]) }
      type Mutation { rate: Movie @invalidates(tags: ["Movie"]) hire: Person @invalidates(tags: ["Person"]) }
      type Movie { id: ID! } type Person { id: ID! }`;
    const { cache, warnings } = listen();
    applyCached(schemaOf(sdl), cache, { entityTags: { exceptTypes: ["Person"] } });
    for (const call of Object.values(CALLS)) await call(cache, ["Movie", "Person"]);
    expect(warnings.filter((line) => line.includes("tag like") || line.includes("a tag that"))).toEqual([]);
    await cache.invalidateTags(["Studio"]);
    expect(warnings.filter((line) => line.includes("a tag that"))).toHaveLength(1);
  });
});

describe("a tag that no value can have", () => {
  const sdl = `
    type Query {
      movie(id: ID): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
      top: [Movie!] @cached(maxAge: 60, tags: ["Ratings", "Genre-{$result[].genre}-list"])
    }
    type Movie { id: ID! genre: String }
  `;
  const apply = (cache: Cache, options: ApplyCachedOptions = {}): void =>
    void applyCached(schemaOf(sdl, { Query: { movie: () => ({}), top: () => [] } }), cache, options);
  const report = (caller: string, given: string, rest: string): string =>
    `${caller}: \`tags\`: expected a tag that a cached field or loader can have, got ${given}; ${rest}; it is right if another service that shares the store has it`;
  const meant = (tag: string): string => `did you mean \`${tag}\`?`;
  const known = "known tags: `Movie:{$args.id}`, `Genre-{$result[].genre}-list`, `Ratings`; correct it";

  /** The tag, how the message shows it, and what it says about it. */
  const GIVEN: readonly [tag: string, given: string, rest: string][] = [
    ["Movie7", "one like `Movie…`", meant("Movie:{$args.id}")],
    ["movie", "another one", known],
    ["Movie-7", "one like `Movie-…`", meant("Movie:{$args.id}")],
    ["movie:7", "one like `movie:…`", meant("Movie:{$args.id}")],
    ["MOVIE:7", "one like `MOVIE:…`", meant("Movie:{$args.id}")],
    ["Moive:7", "one like `Moive:…`", known],
    ["Movies:7", "one like `Movies:…`", known],
    ["Rating", "another one", known],
    ["ratings", "another one", known],
    ["Genre-drama", "another one", known],
    ["Person:7", "one like `Person:…`", known],
    ["ada@example.org", "another one", known],
  ];

  it.each(GIVEN)(
    "is reported once by every call that gets it, by the log and an event: %s",
    async (tag, given, rest) => {
      for (const [name, call] of Object.entries(CALLS)) {
        const { cache, warnings, events } = listen();
        apply(cache);
        for (const again of [tag, "Movie:7", tag]) await call(cache, [again]);
        expect(warnings).toEqual([report(name, given, rest)]);
        expect(events.filter((event) => event.name === "tag.mistaken")).toEqual([
          {
            name: "tag.mistaken",
            coordinate: null,
            digest: "",
            error: expect.objectContaining({ code: "CACHED_OPTION_INVALID" }),
          },
        ]);
      }
    },
  );

  it("is none that a field, an entity or a loader can have", async () => {
    const { cache, warnings } = listen();
    apply(cache, { entityTags: true });
    warnings.length = 0;
    await cache.invalidateTags(["Movie:7", "Movie:a:b", "Ratings", "Genre-drama-list", "Genre--list", "Movie"]);
    expect(warnings).toEqual([]);
  });

  it("is looked for among the first hundred of a call only, since thousands would keep the process busy", async () => {
    const { cache, warnings } = listen();
    applyCached(schemaOf('type Query { film: Int @cached(maxAge: 60, tags: ["Film"]) }'), cache);
    const compared = vi.spyOn(partsOf(cache, "test").knownTags, "unknown");
    await cache.invalidateTags(Array.from({ length: 10_000 }, (_, nth) => `Elsewhere:${nth}`));
    expect(compared).toHaveBeenCalledTimes(100);
    expect(warnings).toHaveLength(1);
  });

  it("is not reported by a process that has applied no schema, since other processes may have", async () => {
    const { cache, warnings } = listen();
    await cache.invalidateTags(["Movie7", "anything"]);
    expect(warnings).toEqual([]);
  });

  it("is reported only if it differs in its form while functions of loaders or results return tags", async () => {
    const silent = ["Person:7", "Movies:7", "Movie", "Moive:7", "Rating"];
    const used = listen();
    used.cache.loader({
      name: "Anything",
      maxAge: 60,
      tags: (id) => [`Person:${id}`],
      batch: async (ids: readonly number[]) => ids,
    });
    apply(used.cache);
    used.warnings.length = 0;
    await used.cache.invalidateTags(silent);
    expect(used.warnings).toEqual([]);
    await used.cache.invalidateTags(["Movie7"]);
    await used.cache.invalidateTags(["movie:7"]);
    const mayBeOfFunction =
      "it is right if a function that returns tags, or another service that shares the store, has it";
    const expected = (given: string): string =>
      `cache.invalidateTags: \`tags\`: expected a tag that a cached field or loader can have, got ${given}; did you mean \`Movie:{$args.id}\`?; ${mayBeOfFunction}`;
    expect(used.warnings).toEqual([expected("one like `Movie…`"), expected("one like `movie:…`")]);
  });

  it("is recognised by what functions were seen to return", async () => {
    const { cache, warnings } = listen();
    const people = cache.loader({
      name: "Person",
      maxAge: 60,
      tags: (id) => [`Person:${id}`, `movie:${id}`],
      batch: async (ids: readonly number[]) => ids,
    });
    const movie = (_: unknown, __: unknown, ___: unknown, info: never): object => {
      resultControl(info).set({ tags: ["Studio:7"] });
      return {};
    };
    const schema = applyCached(schemaOf(sdl, { Query: { movie, top: () => [] } }), cache);
    warnings.length = 0;
    await people({}).load(1);
    await graphql({ schema, source: "{ movie(id: 1) { id } }" });
    await cache.invalidateTags(["Person:9", "movie:9", "Studio:9", "unheard:9"]);
    expect(warnings).toEqual([]);
    await cache.invalidateTags(["person:9"]);
    await cache.invalidateTags(["studio:9"]);
    expect(warnings.map((line) => /did you mean `.*?`/.exec(line)?.[0])).toEqual([
      "did you mean `Person:…`",
      "did you mean `Studio:…`",
    ]);
  });

  it("is reported in @invalidates although there are loaders, if none of them has tags", () => {
    const { cache, warnings } = listen();
    cache.loader({ name: "Plain", maxAge: 60, batch: async (ids: readonly number[]) => ids });
    applyCached(
      schemaOf(`${sdl} type Mutation { rate(id: ID): Int @invalidates(tags: ["Movies:{$args.id}"]) }`),
      cache,
    );
    expect(warnings[0]).toContain(
      "@invalidates on `Mutation.rate`: no cached field has a tag like `Movies:{$args.id}`",
    );
    const text = listen();
    applyCached(schemaOf(`${sdl} type Mutation { rate(id: ID): Int @invalidates(tags: ["Movies"]) }`), text.cache);
    expect(text.warnings[0]).toContain("no cached field has a tag like `Movies`; known tags");
  });
});

describe("an id that is invalidated as a string while numbers were read, or the other way round", () => {
  const doubt = (expected: string, got: string, noun: string): string =>
    `expected ${expected}, as in what was read here, got ${got}, which names another entry, since 7 and "7" are two; pass what the ${noun} gets`;

  it.each([
    [7, "7"],
    ["7", 7],
    ["7", 7n],
  ])("is reported once for a loader of %o", async (read, named) => {
    const { cache, warnings } = listen();
    await cache
      .loader({ name: "Movie", maxAge: 60, batch: async (ids) => ids.map(String) })({})
      .load(read);
    await cache.invalidate({ loader: "Movie", id: read });
    expect(warnings).toEqual([]);
    await cache.invalidate({ loader: "Movie", id: named });
    await cache.mutate({ entries: [{ loader: "Movie", id: named }] }, async () => undefined);
    expect(warnings).toEqual([
      `invalidation of loader \`Movie\`: \`id\`: ${doubt(typeof read, typeof named, "loader")}`,
    ]);
  });

  it("is reported for one of the arguments of a function", async () => {
    const { cache, warnings } = listen();
    const rate = cache.wrap({
      name: "rate",
      maxAge: 60,
      load: async (from: string, year: number) => `${from} ${year}`,
    });
    await rate("EUR", 2026);
    await cache.invalidate({ function: "rate", args: ["EUR", 2025] });
    expect(warnings).toEqual([]);
    await cache.invalidate({ function: "rate", args: ["EUR", "2026"] });
    expect(warnings).toEqual([
      `invalidation of function \`rate\`: \`args\`: ${doubt("[string, number]", "[string, string]", "function")}`,
    ]);
  });

  it("is not reported if nothing like it was read, or both were, or the key makes them one", async () => {
    const { cache, warnings } = listen();
    const batch = async (ids: readonly unknown[]): Promise<string[]> => ids.map(String);
    await cache.invalidate({ loader: (cache.loader({ name: "None", maxAge: 60, batch }), "None"), id: 7 });
    await cache.loader<unknown, string>({ name: "Both", maxAge: 60, batch })({}).loadMany([7, "8"]);
    await cache.invalidate({ loader: "Both", id: "7" });
    await cache.loader({ name: "Own", maxAge: 60, batch, cacheKeyFn: String })({}).load(7);
    await cache.invalidate({ loader: "Own", id: "7" });
    expect(warnings).toEqual([]);
  });
});
