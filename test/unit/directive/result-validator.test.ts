import { buildSchema, GraphQLList, GraphQLNonNull, GraphQLObjectType, type GraphQLOutputType } from "graphql";
import { describe, expect, it, vi } from "vitest";
import { KnownResolvers } from "../../../src/core/base/known-resolvers.js";
import { ResultValidator } from "../../../src/core/directive/run/result-validator.js";
import type { Key } from "../../../src/core/keys/key.js";
import { KnownKey } from "../../../src/core/tier/request/known-key.js";
import { NO_TAGS } from "../../../src/core/tier/request/tags.js";

const schema = buildSchema("enum Genre { DRAMA } type Film { genre: Genre } type Query { film: Film }");
const film = schema.getType("Film") as GraphQLObjectType;

/** A key with a value in memory. */
function keptOf(value: unknown): KnownKey {
  const known = new KnownKey({ name: "film" } as Key, NO_TAGS);
  known.value = value;
  known.kept = { passed: undefined } as KnownKey["kept"];
  return known;
}

/** Returns the check of one field. */
function validate() {
  const validator = new ResultValidator(new KnownResolvers());
  return (known: KnownKey, type: GraphQLOutputType): boolean => validator.isKeptPlausible(known, type, { schema });
}

describe("The validator of a value in memory", () => {
  it("looks at a value that GraphQL accepts once, not at each hit", () => {
    let looks = 0;
    const known = keptOf({
      get genre() {
        looks++;
        return "DRAMA";
      },
    });
    const isPlausible = validate();
    expect([isPlausible(known, film), isPlausible(known, film), isPlausible(known, film)]).toEqual([true, true, true]);
    expect(looks).toBe(1);
  });

  it("refuses a value that GraphQL would refuse at each hit", () => {
    const isPlausible = validate();
    const known = keptOf({ genre: "OPERA" });
    expect([isPlausible(known, film), isPlausible(known, film)]).toEqual([false, false]);
  });

  it("looks at a value again for another type or another field", () => {
    const isPlausible = validate();
    const known = keptOf(null);
    const required = new GraphQLNonNull(film);
    const both = (): boolean[] => [film, required, required].map((type) => isPlausible(known, type));
    expect(both()).toEqual([true, false, false]);
    expect(validate()(known, required)).toBe(false);
    expect(both()).toEqual([true, false, false]);
  });

  it("examines each type once if those of several schemas take turns", () => {
    const isPlausible = validate();
    const types = [film, new GraphQLNonNull(film), new GraphQLList(film)];
    const getFields = vi.spyOn(film, "getFields");
    const [one, list] = [keptOf({ genre: "DRAMA" }), keptOf([{ genre: "DRAMA" }])];
    for (let nth = 0; nth < 3; nth++)
      for (const type of types) expect(isPlausible(type instanceof GraphQLList ? list : one, type)).toBe(true);
    expect(getFields).toHaveBeenCalledTimes(types.length);
    getFields.mockRestore();
  });

  it("accepts every value of a type that cannot be examined, whichever type it has examined before", () => {
    const unusual = new GraphQLObjectType({
      name: "Unusual",
      fields: () => {
        throw new Error("no fields yet");
      },
    });
    const isPlausible = validate();
    const accepts = (type: GraphQLOutputType): boolean => isPlausible(keptOf(null), type);
    const required = new GraphQLNonNull(film);
    expect([required, unusual, unusual, required, unusual].map(accepts)).toEqual([false, true, true, false, true]);
  });
});
