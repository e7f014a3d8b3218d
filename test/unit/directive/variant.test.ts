import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import {
  buildSchema,
  defaultFieldResolver,
  GraphQLEnumType,
  GraphQLID,
  GraphQLInputObjectType,
  GraphQLInt,
  GraphQLObjectType,
  type GraphQLOutputType,
  GraphQLSchema,
  GraphQLString,
} from "graphql";
import { applyCached, type CacheOptions, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { keyTemplateOf, Shapes } from "../../../src/core/directive/compile/variant.js";
import { canonicalize } from "../../../src/core/keys/canonical.js";
import type { Variant } from "../../../src/core/keys/key.js";
import { partsOf } from "../../../src/core/parts.js";

/** Returns the variant of `Query.a`. */
function variantOf(typeDefs: string, resolvers: IResolvers = {}, options: CacheOptions = {}): Variant {
  const cache = createCache({ defaultScope: "PUBLIC", identify: () => "me", ...options });
  const own = { Query: { a: () => null }, ...resolvers };
  applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers: own }), cache);
  return partsOf(cache, "test").rules.fields.get("Query.a")?.variant as Variant;
}

/** Returns the field `Query.a: A` with this policy and arguments, and the type `A`. */
const withPolicy = (settings: string, args = ""): string =>
  `type Query { a${args}: A @cached(maxAge: 60${settings}) } type A { id: ID name: String }`;

const shapeOf = (schema: GraphQLSchema, type: string): string =>
  new Shapes(schema).of(schema.getType(type) as GraphQLOutputType);

describe("the shape of a type", () => {
  const cyclic = (last: string): GraphQLSchema =>
    buildSchema(
      `type Query { a: A } type A { b: B self: A } type B { c: C } type C { a: A d: D } type D { d: [D] ${last} }`,
    );

  it("sees a change at the end of a cycle of types, from each of them", () => {
    for (const type of ["A", "B", "C", "D"])
      expect(shapeOf(cyclic("x: Int"), type)).not.toBe(shapeOf(cyclic("y: Int"), type));
  });

  it("is the same whichever type of a cycle is asked for first", () => {
    const schema = cyclic("x: Int");
    const orders = [
      ["A", "B", "C", "D"],
      ["D", "C", "B", "A"],
      ["C", "A", "D", "B"],
    ];
    const shapes = orders.map((order) => {
      const made = new Shapes(schema);
      const entries = order.map((type) => [type, made.of(schema.getType(type) as GraphQLOutputType)] as const);
      return Object.fromEntries(entries.toSorted(([one], [other]) => (one < other ? -1 : 1)));
    });
    expect(shapes[1]).toEqual(shapes[0]);
    expect(shapes[2]).toEqual(shapes[0]);
    expect(new Set(Object.values(shapes[0] as object)).size).toBe(4);
  });

  it("sees what the members of unions and the types of interfaces contain", () => {
    const abstract = (more: string): GraphQLSchema =>
      buildSchema(
        `type Query { u: U n: N } union U = A | B interface N { id: ID } type A { id: ID } type B implements N { id: ID deep: C } type C { x: Int ${more} }`,
      );
    for (const type of ["U", "N"]) expect(shapeOf(abstract("y: Int"), type)).not.toBe(shapeOf(abstract(""), type));
    expect(shapeOf(abstract("y: Int"), "A")).toBe(shapeOf(abstract(""), "A"));
  });

  it("visits each of 1,000 types once, whatever the number of fields that ask", () => {
    const count = 1_000;
    const types = Array.from(
      { length: count },
      (_, nth) => `type T${nth} { next: T${(nth + 1) % count} far: [T${(nth * 7) % count}] id: ID }`,
    );
    const schema = buildSchema(`type Query { a: T0 } ${types.join(" ")}`);
    let visits = 0;
    for (const type of Object.values(schema.getTypeMap())) {
      if (!(type instanceof GraphQLObjectType)) continue;
      const getFields = type.getFields.bind(type);
      type.getFields = () => (visits++, getFields());
    }
    const shapes = new Shapes(schema);
    for (let nth = 0; nth < count; nth++) shapes.of(schema.getType(`T${nth}`) as GraphQLOutputType);
    expect(visits).toBe(count);
  });
});

describe("the variant of a field", () => {
  const nested = "type Query { a: A @cached(maxAge: 60) } type A { b: B } type B { x: Int }";

  it("ends at fields with a resolver of their own, which count by name and type", () => {
    const resolvers = { A: { b: () => ({}) } };
    const before = variantOf(nested, resolvers).id;
    expect(variantOf(nested.replace("x: Int", "y: Int"), resolvers).id).toBe(before);
    expect(variantOf(nested.replace("b: B", "b: B!"), resolvers).id).not.toBe(before);
    expect(variantOf(nested.replace("b: B", "c: B"), { A: { c: () => ({}) } }).id).not.toBe(before);
  });

  it("goes through graphql-js's default resolver and through the one of stitched schemas", () => {
    const { defaultMergedResolver } = { defaultMergedResolver: () => ({}) };
    for (const b of [defaultFieldResolver, defaultMergedResolver]) {
      expect(variantOf(nested, { A: { b } }).id).toBe(variantOf(nested).id);
      expect(variantOf(nested.replace("x: Int", "y: Int"), { A: { b } }).id).not.toBe(variantOf(nested).id);
    }
  });

  it("changes if a field loses its resolver, because older values may lack what it then reads", () => {
    expect(variantOf(nested, { A: { b: () => ({}) } }).id).not.toBe(variantOf(nested).id);
  });

  it("changes with the internal values of an enum, which are what is stored", () => {
    const colors = "type Query { a: Color @cached(maxAge: 60) } enum Color { RED BLUE }";
    expect(variantOf(colors, { Color: { RED: 1, BLUE: 2 } }).id).not.toBe(
      variantOf(colors, { Color: { RED: 2, BLUE: 1 } }).id,
    );
    expect(variantOf(colors, { Color: { RED: "RED", BLUE: "BLUE" } }).id).toBe(variantOf(colors).id);
  });

  it("is the same after a second applyCached, also for fields that the first one gave a resolver", () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    const typeDefs =
      "type Query { a: A @cached(maxAge: 60) } type A { id: ID b: B @cached(maxAge: 60) } type B { x: Int }";
    const schema = makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs] });
    applyCached(applyCached(schema, cache), cache);
    expect(partsOf(cache, "test").variants.declared("Query.a")).toHaveLength(1);
  });

  it("changes with scope, key, tags, the `version` of field, type and cache, and the entry format", () => {
    const variants = [
      variantOf(withPolicy("")),
      variantOf(withPolicy(", scope: PRIVATE")),
      variantOf(withPolicy(', key: ["$context.locale"]')),
      variantOf(withPolicy(', tags: ["A"]')),
      variantOf(withPolicy(', tags: ["A:{$result.id}"]')),
      variantOf(withPolicy(', version: "2"')),
      variantOf(withPolicy("").replace("type A", 'type A @cached(version: "2")')),
      variantOf(withPolicy(', version: "2"').replace("type A", 'type A @cached(version: "2")')),
      variantOf(withPolicy(""), {}, { version: "2" }),
      variantOf(withPolicy(""), {}, { encryption: { keys: [{ id: "k", key: Buffer.alloc(32) }] } }),
    ].map(({ id }) => id);
    expect(new Set(variants).size).toBe(variants.length);
    const same = [
      variantOf(withPolicy(", staleWhileRevalidate: 9, jitter: 0.5")),
      variantOf(withPolicy(""), {}, { storage: { compressAboveBytes: 0 } }),
    ];
    for (const { id } of same) expect(id).toBe(variants[0]);
    expect(variantOf(withPolicy(', tags: ["A", "B"]'))).toEqual(variantOf(withPolicy(', tags: ["B", "A"]')));
  });
});

describe("the key form of a field", () => {
  const formOf = (typeDefs: string): number => variantOf(typeDefs).form;
  const withArgs = (args: string): number => formOf(withPolicy("", `(${args})`));

  it("is the same for variants that differ in shape, version or tags only", () => {
    const form = formOf(withPolicy(""));
    for (const typeDefs of [withPolicy("").replace("name", "title"), withPolicy(', version: "2", tags: ["A"]')])
      expect(formOf(typeDefs)).toBe(form);
  });

  it("changes with the scope, the parts of the key, and what spells the arguments of every call", () => {
    const forms = [
      formOf(withPolicy("")),
      formOf(withPolicy(", scope: PRIVATE")),
      formOf(withPolicy(", key: []")),
      withArgs("id: Int!"),
      withArgs("id: ID!"),
      withArgs("n: Int = 1"),
      withArgs("n: Int = 2"),
      formOf(`${withPolicy("", "(in: In)")} input In { n: Int = 1 in: In }`),
      formOf(`${withPolicy("", "(in: In)")} input In { n: Int = 2 in: In }`),
    ];
    expect(new Set(forms).size).toBe(forms.length);
  });

  it("sees a change in each of the input objects that contain each other, but no optional field that is added", () => {
    const filters = (one: string, other: string): number =>
      formOf(
        `${withPolicy("", "(one: One)")} input One { and: [One!] other: Other ${one} } input Other { one: One ${other} }`,
      );
    const forms = [
      ["id: ID", ""],
      ["", "id: ID"],
      ["id: ID", "id: ID"],
      ["n: Int = 1", ""],
      ["", "n: Int = 1"],
      ["n: Int = 1", "n: Int = 2"],
    ].map(([one, other]) => filters(one as string, other as string));
    expect(new Set(forms).size).toBe(forms.length);
    expect(filters("id: ID", "note: String")).toBe(forms[0]);
    expect(filters("note: String", "")).toBe(formOf(withPolicy("")));
  });

  it("is made with one look at each input object, however many ways lead to it", () => {
    const names = Array.from({ length: 12 }, (_, nth) => `In${nth}`);
    const fields = names.map((name) => `${name.toLowerCase()}: ${name}`).join(" ");
    const schema = buildSchema(
      `type Query { a(in: In0): Int } ${names.map((name) => `input ${name} { id: ID ${fields} }`).join(" ")}`,
    );
    let looks = 0;
    for (const name of names) {
      const type = schema.getType(name) as GraphQLInputObjectType;
      const getFields = type.getFields.bind(type);
      type.getFields = () => {
        if (++looks > names.length) throw new Error("a second look");
        return getFields();
      };
    }
    const query = schema.getQueryType() as GraphQLObjectType;
    const path = { root: "args", steps: [], text: "$args" } as never;
    keyTemplateOf([path], "PUBLIC", query, query.getFields().a as never, (value) => canonicalize(value));
    expect(looks).toBe(names.length);
  });

  it("is the same whether defaults are written in SDL or in code", () => {
    const sdl = `${withPolicy("", "(kind: Kind = BIG, in: In = { n: 2 }, n: Int = 3)")} enum Kind { BIG } input In { n: Int = 1, kind: Kind = BIG }`;
    const inSdl = variantOf(sdl).form;
    const kind = new GraphQLEnumType({ name: "Kind", values: { BIG: {} } });
    const input = new GraphQLInputObjectType({
      name: "In",
      fields: { n: { type: GraphQLInt, defaultValue: 1 }, kind: { type: kind, defaultValue: "BIG" } },
    });
    const args = {
      kind: { type: kind, defaultValue: "BIG" },
      in: { type: input, defaultValue: { n: 2, kind: "BIG" } },
      n: { type: GraphQLInt, defaultValue: 3 },
    };
    const a = new GraphQLObjectType({ name: "A", fields: { id: { type: GraphQLID }, name: { type: GraphQLString } } });
    const field = { type: a, args, resolve: () => null, extensions: { cached: { maxAge: 60 } } };
    const cache = createCache({ defaultScope: "PUBLIC" });
    applyCached(new GraphQLSchema({ query: new GraphQLObjectType({ name: "Query", fields: { a: field } }) }), cache);
    expect(partsOf(cache, "test").rules.fields.get("Query.a")?.variant.form).toBe(inSdl);
  });

  it("does not change when an optional argument is added or the arguments are reordered", () => {
    expect(withArgs("id: ID!, note: String")).toBe(withArgs("id: ID!"));
    expect(withArgs("b: ID!, a: Int = 1")).toBe(withArgs("a: Int = 1, b: ID!"));
    expect(withArgs("id: ID")).toBe(withArgs("id: ID!"));
  });

  it("changes with the type of the parent's property in the key", () => {
    const formWith = (type: string): number => {
      const cache = createCache({ defaultScope: "PUBLIC" });
      const typeDefs = `type Query { a: A } type A { id: ${type} b: Int @cached(maxAge: 60) }`;
      applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs] }), cache);
      return partsOf(cache, "test").rules.fields.get("A.b")?.variant.form as number;
    };
    expect(formWith("Int!")).not.toBe(formWith("ID!"));
  });
});
