import { settle } from "@graphql-cached/testing";
import type { CacheOptions } from "graphql-cached";
import { jsonCodec } from "graphql-cached/codec";
import { expect, it } from "vitest";
import { dataOf, memoryWorld } from "../../support/world.js";

/*
 * Functions of the user that have to answer at once, and are asynchronous and reject. The check after each test (support/validator.ts)
 * fails for a rejection that nobody handles.
 */

class Ref {
  readonly id: string;

  constructor(id: string) {
    this.id = id;
  }
}
const rejecting = (): never => Promise.reject(new Error("too late")) as never;
const refType = {
  is: (value: unknown) => value instanceof Ref,
  encode: ({ id }: Ref) => ({ id }),
  decode: ({ id }: { id: string }) => new Ref(id),
  keyOf: ({ id }: Ref) => id,
};

const typeDefs = `
  type Query {
    public(id: ID): Item @cached(maxAge: 60, scope: PUBLIC, tags: ["Item:{$args.id}"])
    private: Item @cached(maxAge: 60, scope: PRIVATE)
    failing: Item @cached(maxAge: 60, scope: PUBLIC)
    loaded(id: ID): Item
  }
  type Item { id: ID }
`;
const QUERIES = [
  '{ public(id: "1") { id } }',
  "{ private { id } }",
  "{ failing { id } }",
  '{ loaded(id: "1") { id } }',
] as const;

/** Asks each query twice. Returns the answers, and what was logged. */
async function answersWith(options: CacheOptions<never>, loader: object) {
  const lines: string[] = [];
  const write = (line: string): void => void lines.push(line);
  const site = memoryWorld().process(
    typeDefs,
    {
      Query: {
        public: (_: unknown, { id }: { id: string }) => new Ref(id),
        private: () => ({ id: "mine" }),
        failing: () => Promise.reject(new Error("no item")),
        loaded: (_: unknown, { id }: { id: string }, context: object) => items(context).load(new Ref(id)),
      },
    },
    { identify: () => "ann", types: { Ref: refType }, logger: { info: write, warn: write }, ...options } as never,
  );
  const items = site.cache.loader<Ref, object>({
    name: "Item",
    maxAge: 60,
    scope: "PUBLIC",
    batch: async (ids) => ids.map(({ id }) => ({ id })),
    ...loader,
  });
  const answers: unknown[] = [];
  for (const query of [...QUERIES, ...QUERIES]) {
    const { data, errors } = await site.ask(query, {});
    answers.push([data, errors?.map(({ message }) => message)]);
    await settle();
  }
  await site.cache.invalidateTags(["Item:1"]);
  await site.cache.settled();
  return { answers, lines };
}

const ref = (own: object): CacheOptions<never> => ({ types: { Ref: { ...refType, ...own } } }) as never;

it.each<[name: string, options: object, loader: object]>([
  ["identify", { identify: rejecting }, {}],
  ["loads.isCallerError", { loads: { isCallerError: rejecting, errorBackoffMs: 1 } }, {}],
  ["loads.isSourceFailure", { loads: { isSourceFailure: rejecting, errorBackoffMs: 1 } }, {}],
  ["loads.errorMaxAgeMs", { loads: { errorMaxAgeMs: rejecting } }, {}],
  ["loads.abortSignal", { loads: { abortSignal: rejecting } }, {}],
  ["invalidation.normalizeTag", { invalidation: { normalizeTag: rejecting } }, {}],
  ["types.Ref.is", ref({ is: rejecting }), {}],
  ["Promise at `result.encode()", ref({ encode: rejecting }), {}],
  ["types.Ref.decode", ref({ decode: rejecting }), {}],
  ["types.Ref.keyOf", ref({ keyOf: rejecting }), {}],
  ["codec.encode", { types: undefined, codec: { ...jsonCodec, encode: rejecting } }, { cacheKeyFn: idOf }],
  ["codec.decode", { types: undefined, codec: { ...jsonCodec, decode: rejecting } }, { cacheKeyFn: idOf }],
  ["tags", {}, { tags: rejecting }],
  ["tags", {}, { tags: () => [rejecting(), rejecting()] }],
  ["Promise", {}, { cacheKeyFn: rejecting }],
  ["Promise", {}, { cacheKeyFn: () => ({ id: rejecting() }) }],
])("%s that is asynchronous and rejects is reported once, and fails nothing", async (name, options, loader) => {
  const { answers, lines } = await answersWith(options as never, loader);
  const { answers: expected } = await answersWith({}, {});
  expect(answers).toEqual(expected);
  const about = lines.filter((line) => line.includes(name));
  expect(about.length, lines.join("\n")).toBeGreaterThan(0);
  expect(new Set(about).size).toBe(about.length);
});

it.each<[string, CacheOptions<never>, object]>([
  ["a logger", { logger: { info: rejecting, warn: rejecting } } as never, { tags: rejecting }],
  ["a guard with an answer for each id", {}, { exists: { has: (ids: readonly unknown[]) => ids.map(rejecting) } }],
])("%s that is asynchronous and rejects fails nothing", async (_name, options, loader) => {
  const { answers } = await answersWith(options, loader);
  expect(answers).toEqual((await answersWith({}, {})).answers);
});

it("isTypeOf that is asynchronous and rejects while the entities of a mutation are found fails nothing", async () => {
  const site = memoryWorld().process(
    `
      type Query { a: Int @cached(maxAge: 60) }
      interface Node { id: ID }
      type Item implements Node { id: ID }
      type Mutation { change: [Node] }
    `,
    { Mutation: { change: () => [{ id: 1 }] }, Item: { __isTypeOf: async () => true } },
    {},
    { entityTags: true } as never,
  );
  expect(await dataOf(site.ask("mutation { change { id } }"))).toEqual({ change: [{ id: "1" }] });
});

function idOf({ id }: Ref): string {
  return id;
}
