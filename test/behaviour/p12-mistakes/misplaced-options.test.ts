import { makeExecutableSchema } from "@graphql-tools/schema";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { redisStore } from "graphql-cached/redis";
import { useCached } from "graphql-cached/yoga";
import { describe, expect, it } from "vitest";
import { OPTIONS_OF } from "../../../src/core/base/option-owners.js";
import { GENERAL_SETTINGS } from "../../../src/core/policy/policy.js";
import { OPTION_GROUPS, OPTIONS } from "../../../src/option-checks.js";

const batch = async (ids: readonly number[]) => ids;
const cacheOf = () => createCache({ defaultScope: "PUBLIC" });
const schema = makeExecutableSchema({
  typeDefs: [cachedTypeDefs, "type Query { a: Int @cached(maxAge: 60) }"],
  resolvers: { Query: { a: () => 1 } },
});
const client = { on: () => client, defineCommand: () => client } as never;

/** Every function with options, by what is called with them. */
const FUNCTIONS: Readonly<Record<string, (options: object) => unknown>> = {
  createCache: (options) => createCache({ defaultScope: "PUBLIC", ...options }),
  applyCached: (options) => applyCached(schema, cacheOf(), options as never),
  "cache.loader": (options) => cacheOf().loader({ name: "Movie", maxAge: 60, batch, ...options }),
  cachedPlugin: (options) => cachedPlugin(cacheOf(), options as never),
  useCached: (options) => useCached(cacheOf(), options as never),
  cachedHooks: (options) =>
    cachedHooks({ graphql: {}, addHook: () => undefined } as never, cacheOf() as never, options as never),
  memoryStore: (options) => memoryStore(options),
  redisStore: (options) => redisStore({ client, ...options }),
};

function messageOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    return (error as Error).message;
  }
  return "accepted";
}

describe("an option that belongs elsewhere", () => {
  it.each([
    ["createCache", "policies", "applyCached(schema, cache, { … })"],
    ["createCache", "entityTags", "applyCached(schema, cache, { … })"],
    ["createCache", "idFields", "applyCached(schema, cache, { … })"],
    ["createCache", "cacheControl", "applyCached(schema, cache, { … })"],
    ["createCache", "exists", "applyCached(schema, cache, { … })"],
    ["createCache", "responses", "the plugin of the server, such as cachedPlugin(cache, { … })"],
    ["createCache", "edge", "the plugin of the server, such as cachedPlugin(cache, { … })"],
    ["createCache", "batch", "cache.loader"],
    ["applyCached", "store", "createCache({ … })"],
    ["applyCached", "identify", "createCache({ … })"],
    ["applyCached", "loadTimeoutMs", "createCache({ loads })"],
    ["applyCached", "maxAge", "a policy: @cached, `policies` of applyCached, or cache.loader"],
    ["applyCached", "responses", "the plugin of the server, such as cachedPlugin(cache, { … })"],
    ["cachedPlugin", "policies", "applyCached(schema, cache, { … })"],
    ["useCached", "entityTags", "applyCached(schema, cache, { … })"],
    ["cachedHooks", "sharedContextKeys", "createCache({ privacy })"],
    ["cachedPlugin", "staleIfError", "a policy: @cached, `policies` of applyCached, or cache.loader"],
    ["cache.loader", "store", "createCache({ … })"],
    ["cache.loader", "policies", "applyCached(schema, cache, { … })"],
    ["cache.loader", "errorMaxAgeMs", "createCache({ loads })"],
    ["memoryStore", "maxValueBytes", "createCache({ storage })"],
    ["redisStore", "defaultScope", "createCache({ … })"],
  ])("is refused with the place where it does: %s, %s", (name, option, owner) => {
    expect(messageOf(() => FUNCTIONS[name]?.({ [option]: {} }))).toMatch(
      new RegExp(`\`${option}\`: unknown (option|setting)`),
    );
    expect(messageOf(() => FUNCTIONS[name]?.({ [option]: {} }))).toContain(`; it belongs in ${owner}`);
  });

  it("is found for every option of the cache, of a schema and of a policy", () => {
    const groups = Object.entries(OPTION_GROUPS).filter(([name]) => !["inspection", "testing"].includes(name));
    const ofGroups = groups.map(([name, rules]) => [`createCache({ ${name} })`, Object.keys(rules)]);
    const known = Object.fromEntries(
      Object.entries(OPTIONS_OF).map(([owner, names]) => [owner, names.split(" ").sort()]),
    );
    const ofCache = [...Object.keys(OPTIONS), "defaults", ...Object.keys(OPTION_GROUPS)].sort();
    expect(known["createCache({ … })"]).toEqual(ofCache);
    for (const [owner, names] of ofGroups) expect(known[owner as string]).toEqual([...(names as string[])].sort());
    const listed = /expected one of (.*?)(;|$)/.exec(messageOf(() => FUNCTIONS.applyCached?.({ unknownOne: 1 })))?.[1];
    expect(known["applyCached(schema, cache, { … })"]).toEqual((listed ?? "").split(/\W+/).filter(Boolean).sort());
    const settings = known["a policy: @cached, `policies` of applyCached, or cache.loader"];
    expect([...(settings ?? []), "version"].sort()).toEqual([...GENERAL_SETTINGS, "key", "tags", "version"].sort());
  });
});
