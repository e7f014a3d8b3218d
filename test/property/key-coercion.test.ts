import fc from "fast-check";
import {
  coerceInputValue,
  GraphQLEnumType,
  GraphQLID,
  GraphQLInputObjectType,
  type GraphQLInputType,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  GraphQLScalarType,
  GraphQLString,
} from "graphql";
import { describe, expect, it } from "vitest";
import { ValueWriters } from "../../src/core/directive/compile/value-types.js";
import { idText, isRounded, writeValue } from "../../src/core/keys/canonical.js";

const RUNS = Number(process.env.PROPERTY_RUNS ?? 300);

const Json = new GraphQLScalarType({ name: "JSON", parseValue: (value) => structuredClone(value) });
const Color = new GraphQLEnumType({
  name: "Color",
  values: { RED: { value: 0 }, GREEN: { value: "RED" }, BLUE: { value: { isObject: true } } },
});
const Filter: GraphQLInputObjectType = new GraphQLInputObjectType({
  name: "Filter",
  fields: () => ({
    id: { type: GraphQLID, defaultValue: 7 },
    ids: { type: new GraphQLList(new GraphQLNonNull(GraphQLID)) },
    color: { type: Color, defaultValue: 0 },
    n: { type: GraphQLInt },
    text: { type: GraphQLString },
    json: { type: Json },
    inner: { type: Filter },
    all: { type: new GraphQLList(Filter) },
  }),
});
const FILTERS = new GraphQLNonNull(new GraphQLList(Filter));

/** What a client can send for `Filter`. The few ids make different spellings of one id likely. */
const sent = fc.letrec<{ filter: object }>((tie) => ({
  filter: fc.record(
    {
      id: fc.constantFrom(7, "7", "07", 8, null),
      ids: fc.oneof(fc.constantFrom(7, "7"), fc.array(fc.constantFrom(7, "7", "8"), { maxLength: 2 })),
      color: fc.constantFrom("RED", "GREEN", "BLUE", null),
      n: fc.constantFrom(0, 1, null),
      text: fc.constantFrom("", "7", "RED", null),
      json: fc.oneof({ depthSize: "small" }, fc.jsonValue({ maxDepth: 2 }), fc.constantFrom(7, "7", "RED")),
      inner: fc.option(tie("filter"), { depthSize: "small", maxDepth: 2 }),
      all: fc.array(tie("filter"), { maxLength: 2 }),
    },
    { requiredKeys: [], noNullPrototype: true },
  ),
})).filter;

/** What a client sends, written in another way: ids spelled otherwise, fields of input objects in another order. */
function respelled(value: unknown, type: GraphQLInputType): unknown {
  if (type instanceof GraphQLNonNull) return respelled(value, type.ofType as GraphQLInputType);
  if (value === null || value === undefined) return value;
  if (type instanceof GraphQLList)
    return Array.isArray(value)
      ? value.map((member) => respelled(member, type.ofType as GraphQLInputType))
      : respelled(value, type.ofType as GraphQLInputType);
  if (type === GraphQLID) return typeof value === "number" ? String(value) : value === "7" ? 7 : value;
  if (!(type instanceof GraphQLInputObjectType)) return value;
  const fields = type.getFields();
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, member]) => [name, respelled(member, fields[name]?.type as GraphQLInputType)]),
  );
}

/**
 * What a resolver can tell apart, independent of the cache's own text: ids as GraphQL serialises
 * them, input objects by field, custom scalars with the order of their fields.
 */
function observed(value: unknown, type: GraphQLInputType): unknown {
  if (type instanceof GraphQLNonNull) return observed(value, type.ofType as GraphQLInputType);
  if (value === null || value === undefined) return ["nothing", String(value)];
  if (type instanceof GraphQLList)
    return (value as unknown[]).map((member) => observed(member, type.ofType as GraphQLInputType));
  if (type instanceof GraphQLInputObjectType)
    return Object.keys(type.getFields())
      .toSorted((a, b) => (a < b ? -1 : 1))
      .map((name) => [
        name,
        observed((value as Record<string, unknown>)[name], type.getFields()[name]?.type as GraphQLInputType),
      ]);
  if (type === GraphQLID || type === Color) return ["leaf", (type as GraphQLScalarType).serialize(value)];
  return inOrder(value);
}

const inOrder = (value: unknown): unknown => {
  if (Array.isArray(value)) return ["list", ...value.map(inOrder)];
  if (typeof value === "object" && value !== null)
    return ["object", ...Object.entries(value).map(([name, member]) => [name, inOrder(member)])];
  return [typeof value, Object.is(value, -0) ? "-0" : String(value)];
};

const coerce = (value: unknown): unknown => coerceInputValue(structuredClone(value), FILTERS);
const write = new ValueWriters(writeValue).of(FILTERS);
const textOf = (value: unknown): string => write(coerce(value), 0);

describe("the key of coerced arguments", () => {
  it("is the same exactly for arguments that GraphQL coerces to the same values", () => {
    let same = 0;
    fc.assert(
      fc.property(sent, sent, fc.boolean(), (a, other, isNear) => {
        // Unrelated values differ in too many places to show which of them the text contains.
        const b = isNear ? { ...a, ...Object.fromEntries(Object.entries(other).slice(0, 1)) } : other;
        const isSame = JSON.stringify(observed(coerce(a), FILTERS)) === JSON.stringify(observed(coerce(b), FILTERS));
        if (isSame) same++;
        expect(textOf(a) === textOf(b)).toBe(isSame);
      }),
      {
        numRuns: RUNS,
        examples: [
          [{ id: 7 }, { id: "7" }, false],
          [{ color: "RED" }, {}, false],
        ],
      },
    );
    expect(same).toBeGreaterThan(RUNS / 50);
  });

  it("does not depend on the spelling of ids and on the order of input fields", () => {
    fc.assert(
      fc.property(sent, (value) => {
        expect(textOf(respelled(value, Filter))).toBe(textOf(value));
      }),
      { numRuns: RUNS },
    );
  });
});

describe("the text of an ID", () => {
  it("is what graphql-js serialises, for everything that it can serialise", () => {
    const id = fc.oneof(
      fc.string(),
      fc.integer(),
      fc.double(),
      fc.boolean(),
      fc.constantFrom(null, undefined, -0, 1e21, {}, [], [7], new Date(5), new Date(Number.NaN)),
      fc.anything().map((value) => ({ toJSON: () => value })),
      fc.anything().map((value) => ({ valueOf: () => value })),
      fc.tuple(fc.anything(), fc.anything()).map(([a, b]) => ({ valueOf: () => a, toJSON: () => b })),
    );
    fc.assert(
      fc.property(id, (value) => {
        let expected: unknown;
        try {
          expected = GraphQLID.serialize(value);
        } catch {
          // Not an id. The generators make no bigints, which graphql-js serialises from version 17 on.
        }
        // A number above 2^53 may have been rounded, so that two ids would be one.
        if (typeof expected === "string" && String(Number(expected)) === expected && isRounded(Number(expected)))
          expected = undefined;
        expect(idText(value)).toBe(expected);
      }),
      { numRuns: RUNS },
    );
    expect(idText(7n)).toBe("7");
  });
});

describe("the key of a part of the parent", () => {
  it("does not depend on the spelling of ids and on the order of fields, in lists and recursive types", () => {
    const Person: GraphQLObjectType = new GraphQLObjectType({
      name: "Person",
      fields: () => ({
        id: { type: new GraphQLNonNull(GraphQLID) },
        age: { type: GraphQLInt },
        friends: { type: new GraphQLList(Person) },
      }),
    });
    const person = new ValueWriters(writeValue).of(Person);
    const one = { id: 7, age: 1, friends: [{ age: 2, id: 8n }] };
    expect(person(one, 0)).toBe(person({ friends: [{ id: "8", age: 2 }], id: "7", age: 1 }, 0));
    expect(person(one, 0)).not.toBe(person({ ...one, age: "1" }, 0));
  });
});
