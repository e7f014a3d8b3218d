// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the placeholders of JavaScript are among the mistakes.
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import { type GraphQLSchema, graphql } from "graphql";
import {
  type ApplyCachedOptions,
  applyCached,
  type CachedError,
  type CacheEvent,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  resultControl,
} from "graphql-cached";
import { describe, expect, it } from "vitest";

const schemaOf = (sdl: string, resolvers: object = {}): GraphQLSchema =>
  makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl], resolvers: resolvers as IResolvers });

/** A cache, and what it logs and publishes. */
function listen(options: CacheOptions = {}) {
  const lines: string[] = [];
  const events: CacheEvent[] = [];
  const log = (line: string): void => void lines.push(line);
  const cache = createCache({ ...options, logger: { info: log, warn: log }, onEvent: (event) => events.push(event) });
  return { cache, lines, events };
}

function mistakeIn(sdl: string, options: ApplyCachedOptions = {}, cacheOptions: CacheOptions = {}): string {
  try {
    applyCached(schemaOf(sdl), listen(cacheOptions).cache, options);
  } catch (error) {
    return (error as CachedError).message;
  }
  return "accepted";
}

describe("a tag that is written as a key is, or as text of JavaScript", () => {
  const expected = "expected tags such as Movie:{$args.id} or Movie:{$result[].id}, got";

  it.each([
    ["Movie:$args.id", "Movie:{$args.id}"],
    ["Movie:$result[].id", "Movie:{$result[].id}"],
    ["$args.id", "{$args.id}"],
    ["Movie:$args.id:$args.part", "Movie:{$args.id}:{$args.part}"],
    ["Movie:{$args.id}:$args.part", "Movie:{$args.id}:{$args.part}"],
    ["Movie:${args.id}", "Movie:{$args.id}"],
    ["Movie:${$args.id}", "Movie:{$args.id}"],
    ["Movie:$id", "Movie:{$args.id}"],
    ["Movie:{id}", "Movie:{$args.id}"],
    ["Movie:{args.id}", "Movie:{$args.id}"],
    ["Movie:{ $args.id }", "Movie:{$args.id}"],
    ["Movie:{{$args.id}}", "Movie:{$args.id}"],
  ])("is refused with the remedy in @cached, @invalidates, extensions and profiles: %s", (tag, remedy) => {
    const mistake = `\`tags\`: ${expected} "${tag}"; did you mean "${remedy}"?`;
    const args = "(id: ID, part: ID)";
    expect(
      mistakeIn(`type Query { a${args}: [Thing] @cached(maxAge: 1, tags: ["${tag}"]) } type Thing { id: ID }`),
    ).toBe(`@cached on \`Query.a\`: ${mistake}`);
    const mutation = `type Query { a: Int } type Mutation { b${args}: [Thing] @invalidates(tags: ["${tag}"]) } type Thing { id: ID }`;
    expect(mistakeIn(mutation)).toBe(`@invalidates on \`Mutation.b\`: ${mistake}`);
    const profiled = `type Query { a${args}: [Thing] @cached(profile: "hot") } type Thing { id: ID }`;
    expect(mistakeIn(profiled, {}, { profiles: { hot: { maxAge: 1, tags: [tag] } } })).toBe(
      `@cached on \`Query.a\`: ${mistake}`,
    );
    const schema = schemaOf(`type Query { a${args}: [Thing] } type Thing { id: ID }`);
    Object.assign(schema.getQueryType()?.getFields().a ?? {}, { extensions: { cached: { maxAge: 1, tags: [tag] } } });
    expect(() => applyCached(schema, listen().cache)).toThrow(`@cached on \`Query.a\`: ${mistake}`);
  });

  it("is refused without a guess if there is none", () => {
    expect(mistakeIn('type Query { a: Int @cached(maxAge: 1, tags: ["A{"]) }')).toBe(
      `@cached on \`Query.a\`: \`tags\`: ${expected} "A{"`,
    );
  });

  it("is accepted if a dollar sign is just a dollar sign", () => {
    expect(mistakeIn('type Query { a: Int @cached(maxAge: 1, tags: ["US$", "$5", "a$-b"]) }')).toBe("accepted");
  });

  it.each([
    ["{$args.id}", "$args.id"],
    ["${args.id}", "$args.id"],
    ["args.id", "$args.id"],
    ["{args.id}", "$args.id"],
    ["id", "$args.id"],
    ["$id", "$args.id"],
  ])("is refused with the remedy as a part of a key: %s", (part, remedy) => {
    expect(mistakeIn(`type Query { a(id: ID): Int @cached(maxAge: 1, key: ["${part}"]) }`)).toBe(
      `@cached on \`Query.a\`: \`key\`: expected paths such as $args.id, $source.id, $context.locale or $selection, got "${part}"; did you mean "${remedy}"?`,
    );
  });
});

describe("a template in the place of a tag", () => {
  const templates = ["Movie:{$args.id}", "Movie:$args.id", "Movie:{$result[].id}", "{$source.id}", "Movie:${args.id}"];
  const problem =
    "got the template of one, which only `@cached` and `@invalidates` fill in; write the value itself, such as `Movie:${id}`";

  it.each(templates)("is refused in calls: %s", async (tag) => {
    const { cache } = listen();
    const mistake = `\`tags\`: expected tags such as "Movie:7", ${problem}`;
    await expect(cache.invalidateTags(["Movie:1", tag])).rejects.toMatchObject({
      code: "CACHED_OPTION_INVALID",
      message: `cache.invalidateTags: ${mistake}`,
    });
    await expect(cache.mutate({ tags: [tag] }, () => 1)).rejects.toThrow(`cache.mutate: ${mistake}`);
  });

  it.each(templates)("is reported in the tags of a loader, whose values are not cached then: %s", async (tag) => {
    const { cache, lines } = listen();
    const loader = cache.loader({
      name: "Movie",
      maxAge: 60,
      tags: () => [tag],
      batch: async (ids: readonly number[]) => ids,
    });
    for (let request = 0; request < 2; request++) expect(await loader({}).load(7)).toBe(7);
    expect(lines).toEqual([
      `graphql-cached: cache.loader("Movie"): a value is not cached: \`tags\`: expected tags such as "Movie:7", ${problem}`,
    ]);
  });

  it.each(templates)("is refused in the tags of a result: %s", async (tag) => {
    const movie = (_: unknown, __: unknown, ___: unknown, info: never): number => {
      resultControl(info).set({ tags: [tag] });
      return 1;
    };
    const schema = applyCached(
      schemaOf("type Query { movie: Int @cached(maxAge: 60) }", { Query: { movie } }),
      listen().cache,
    );
    const { errors } = await graphql({ schema, source: "{ movie }" });
    expect(errors?.[0]?.message).toBe(
      `\`Query.movie\`: set() of its result: \`tags\`: expected tags such as "Movie:7", ${problem}`,
    );
  });
});
