import { makeExecutableSchema } from "@graphql-tools/schema";
import fc from "fast-check";
import type { GraphQLResolveInfo } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { type FieldRoots, keyOf, knownTagsOf } from "../../../src/core/directive/compile/field-rule.js";
import { FieldKeys } from "../../../src/core/directive/run/field-keys.js";
import type { Key } from "../../../src/core/keys/key.js";
import { RequestStates } from "../../../src/core/loader/request-states.js";
import { partsOf } from "../../../src/core/parts.js";
import type { FieldRule } from "../../../src/core/schema-rules.js";
import type { Reads } from "../../../src/core/tier/read/hit.js";
import { Memos } from "../../../src/core/tier/request/known-key.js";
import type { RequestTags } from "../../../src/core/tier/request/tags.js";

const typeDefs = /* GraphQL */ `
  scalar Any
  input Filter {
    id: ID
    any: Any
  }
  type Query {
    one(id: ID): Int @cached(maxAge: 60)
    tagged(id: ID): Int @cached(maxAge: 60, tags: ["T:{$args.id}"])
    any(any: Any): Int @cached(maxAge: 60)
    two(id: ID, any: Any): Int @cached(maxAge: 60)
    inside(filter: Filter): Int @cached(maxAge: 60, key: ["$args.filter.any.id"], tags: ["F:{$args.filter.id}"])
    local(id: ID): Int @cached(maxAge: 60, key: ["$args.id", "$context.locale"])
    otherTag(id: ID): Int @cached(maxAge: 60, tags: ["L:{$context.locale}"])
    own(id: ID): Int @cached(maxAge: 60, scope: PRIVATE)
    byId(id: ID, any: Any): Int @cached(maxAge: 60, key: ["$args.id"])
    byAny(any: Any): Int @cached(maxAge: 60, key: ["$args.any"], tags: ["A:{$args.any}"])
    twice(id: ID): Int @cached(maxAge: 60, key: ["$args.id", "$args"])
    byLocale: Int @cached(maxAge: 60, key: ["$context.locale", "$args"])
    everybody: Int @cached(maxAge: 60, tags: ["L:{$context.locale}"])
    parent: Parent
  }
  type Parent {
    id: ID
    child: Int @cached(maxAge: 60)
    sized(any: Any): Int @cached(maxAge: 60, tags: ["P:{$source.id}"])
    byName: Int @cached(maxAge: 60, key: ["$source.name"])
    nameFirst: Int @cached(maxAge: 60, key: ["$source.name", "$args"])
    nameTwice: Int @cached(maxAge: 60, key: ["$source.name", "$source.name"])
  }
`;

function rules(): { readonly all: readonly FieldRule[]; readonly keys: ReturnType<typeof partsOf>["keys"] } {
  const cache = createCache({ defaultScope: "PUBLIC", identify: () => 7, types: {} });
  applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs] }), cache as never);
  const parts = partsOf(cache, "test");
  return { all: [...parts.rules.fields.values()], keys: parts.keys };
}

/** Values of which some are one input in the eyes of a careless memo. */
const value = fc.constantFrom<unknown>(
  ...[undefined, null, 0, -0, 7, "7", "", "n7,", "1:7", true, 7n, Number.NaN],
  ...[[], [7], {}, { id: 7 }, { id: "7" }, { id: null }, { id: undefined }, { length: 1 }, new Date(7), new Map()],
);
const args = fc.oneof(
  // As of a field that has none.
  fc.constant({}),
  fc.record(
    { id: value, any: value, filter: fc.oneof(value, fc.record({ id: value, any: value })) },
    { requiredKeys: [] },
  ),
);
const source = fc.oneof(value, fc.record({ id: value, name: value }, { requiredKeys: [] }));
const context = fc.oneof(value, fc.record({ locale: value }, { requiredKeys: [] }));
const identity = fc.constantFrom("7", "a", "1:7");

/** What the names of a call are made from. */
type Call = Pick<FieldRoots, "args" | "source" | "context"> & { readonly identity: string };

/** The result of `make`, or the code of its error. */
function outcome(make: () => unknown): unknown {
  try {
    return make();
  } catch (error) {
    return (error as { code?: unknown }).code ?? String(error);
  }
}

const memos = (): Memos => new Memos(1_000_000);

const requestStates = new RequestStates(
  { invalidations: {} } as Reads,
  { count: 0, hasChangedSince: () => false },
  { maxKeyBytes: 1_000_000, maxTagCombinations: 1_000_000 },
);

describe("the names of field calls", () => {
  const { all, keys } = rules();

  const expectSameNames = (rule: FieldRule, names: FieldKeys, given: Call): void => {
    const owner = rule.policy.scope === "PRIVATE" ? given.identity : undefined;
    const roots: FieldRoots = { ...given, info: undefined };
    const shown = (key: Key, { subjects, isOwn }: RequestTags) => ({ key, subjects, isOwn });
    const expected = outcome(() => shown(keyOf(rule, roots, owner, keys), knownTagsOf(rule, roots, owner, keys)));
    const info = { variableValues: {} } as GraphQLResolveInfo;
    const found = outcome(() => {
      const { key, tags } = names.of(given.source, given.args, given.context, info, owner);
      return shown(key, tags);
    });
    expect(found, rule.coordinate).toEqual(expected);
  };

  it("are the same as without a memo, for plain values of every field", () => {
    for (const rule of all) {
      const names = new FieldKeys(rule, { keys, requestStates, memos: memos() });
      for (const id of ["7", 7, "", 0, null, undefined])
        for (const given of [{}, { id }, { any: id }, { id, any: "other" }, { filter: { id, any: { id } } }])
          expectSameNames(rule, names, {
            args: given,
            source: { id, name: id },
            context: { locale: id },
            identity: "a",
          });
    }
  });

  it("are the same as without a memo, whatever was remembered before", () => {
    // Fields of one parent share the rows of their keys.
    const shared = memos();
    const remembered = new Map(all.map((rule) => [rule, new FieldKeys(rule, { keys, requestStates, memos: shared })]));
    const call = fc.record({ rule: fc.constantFrom(...all), args, source, context, identity });
    fc.assert(
      fc.property(fc.array(call, { minLength: 2, maxLength: 20 }), (calls) => {
        for (const { rule, ...given } of calls) {
          expectSameNames(rule, remembered.get(rule) as FieldKeys, given);
        }
      }),
      { numRuns: 400 },
    );
  });

  it("are remembered for calls with the same single values, and not for calls with objects", () => {
    const info = { variableValues: {} } as GraphQLResolveInfo;
    const areSame = <Names>(call: () => Names): void => expect(call()).toBe(call());
    const namesOf = (coordinate: string): FieldKeys =>
      new FieldKeys(all.find((rule) => rule.coordinate === coordinate) as FieldRule, {
        keys,
        requestStates,
        memos: memos(),
      });
    const one = namesOf("Query.one");
    areSame(() => one.of({}, { id: "7" }, {}, info, undefined));
    expect(one.of(undefined, { id: "7" }, {}, info, undefined)).toBe(one.of({}, { id: "7" }, {}, info, undefined));
    const two = namesOf("Query.two");
    const both = { id: 7, any: null };
    areSame(() => two.of(undefined, { ...both }, {}, info, undefined));
    const own = namesOf("Query.own");
    const ofOwner = (owner: string) => own.of(undefined, { id: "7" }, {}, info, owner);
    areSame(() => ofOwner("a"));
    expect(ofOwner("a").key.name).not.toBe(ofOwner("b").key.name);
    const any = namesOf("Query.any");
    const list = [7];
    const before = any.of(undefined, { any: list }, {}, info, undefined);
    list.push(8);
    expect(any.of(undefined, { any: list }, {}, info, undefined).key.name).not.toBe(before.key.name);
  });
});
