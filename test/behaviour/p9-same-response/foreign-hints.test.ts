import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLResolveInfo, graphql } from "graphql";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { expect, it, onTestFinished } from "vitest";

interface Hint {
  scope?: string | undefined;
  restrict?(): void;
  setPrivate?(): void;
}

/** Asks twice for a field whose `info` has the cache hint of another server than Apollo, and returns what was answered. */
async function askTwice(hintOf: () => Hint | null, read: (hint: Hint) => unknown): Promise<readonly unknown[]> {
  const cache = createCache({
    defaultScope: "PUBLIC",
    store: memoryStore(),
    logger: { info: () => undefined, warn: () => undefined },
  });
  onTestFinished(() => cache.close());
  let loads = 0;
  const resolvers = {
    Query: {
      top: (_: unknown, __: unknown, ___: unknown, info: { cacheControl: { cacheHint: Hint } }) => {
        read(info.cacheControl.cacheHint);
        return ++loads;
      },
    },
  };
  const typeDefs = [cachedTypeDefs, "type Query { top: Int @cached(maxAge: 60) }"];
  const schema = applyCached(makeExecutableSchema({ typeDefs, resolvers: resolvers as never }), cache);
  const field = schema.getQueryType()?.getFields().top;
  const resolve = field?.resolve;
  if (field === undefined || resolve === undefined) throw new Error("expected a field with a resolver");
  field.resolve = (source, args, context, info) => {
    const cacheControl = { cacheHint: hintOf(), setCacheHint: () => undefined };
    return resolve(source, args, context, Object.assign({}, info, { cacheControl }) as unknown as GraphQLResolveInfo);
  };
  const answers: unknown[] = [];
  for (let nth = 0; nth < 2; nth++) {
    const { data, errors } = await graphql({ schema, source: "{ top }", contextValue: {} });
    answers.push(errors?.[0]?.message ?? data?.top);
    await cache.settled();
  }
  return answers;
}

it("a value is not shared if a method of the server's own has made its hint PRIVATE", async () => {
  const hintOf = (): Hint => ({
    scope: undefined,
    setPrivate() {
      this.scope = "PRIVATE";
    },
  });
  expect(await askTwice(hintOf, (hint) => hint.setPrivate?.())).toEqual([1, 2]);
});

it("a frozen hint is read as any other, and a hint that is null is none", async () => {
  const frozen = (): Hint => Object.freeze({ restrict: () => undefined });
  expect(await askTwice(frozen, (hint) => hint.restrict?.())).toEqual([1, 1]);
  const read = (hint: Hint | null): unknown => hint?.scope;
  expect(await askTwice(() => null, read)).toEqual([1, 1]);
});
