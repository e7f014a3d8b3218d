import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import fc from "fast-check";
import {
  type ASTNode,
  type DefinitionNode,
  type EnumValueDefinitionNode,
  type FieldDefinitionNode,
  Kind,
  parse,
  parseType,
  print,
  visit,
} from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { expect, it } from "vitest";
import { partsOf } from "../../src/core/parts.js";
import { type Draw, drawFrom } from "./draw.js";
import { randomResolvers } from "./random-data.js";
import { type RandomField, type RandomSchema, randomSchema } from "./random-schema.js";

const RUNS = Number(process.env.PROPERTY_RUNS ?? 25);

/** Returns the variant of each cached field, and its scope, which can follow from its parents. */
function variantsOf(
  typeDefs: string,
  resolvers: IResolvers,
): ReadonlyMap<string, { readonly variant: string; readonly scope: string }> {
  const cache = createCache({ defaultScope: "PUBLIC", identify: () => "me" });
  applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
  return new Map(
    [...partsOf(cache, "test").rules.fields].map(([coordinate, { variant, policy }]) => [
      coordinate,
      { variant: variant.id, scope: policy.scope },
    ]),
  );
}

/** Returns the names of the types that a value of the field can contain, from the model of the schema alone. */
function reachedFrom({ objects, members }: RandomSchema, field: RandomField): ReadonlySet<string> {
  const reached = new Set([field.typeName]);
  for (const name of reached)
    for (const next of members[name] ??
      objects[name]?.filter(({ hasResolver }) => !hasResolver).map(({ typeName }) => typeName) ??
      [])
      reached.add(next);
  return reached;
}

/** A change of one type or field that matters to whatever contains it. */
interface Change {
  readonly typeName: string;
  /** The field of the type whose own type changes. */
  readonly fieldName?: string;
  apply(definition: DefinitionNode): DefinitionNode;
}

function changeOf(random: RandomSchema, draw: Draw): Change {
  const typeName = draw.pick(Object.keys(random.objects).filter((name) => name !== "Query"));
  const fields = random.objects[typeName] ?? [];
  const field = draw.pick(fields);
  const withFields =
    (change: (fields: readonly FieldDefinitionNode[]) => readonly FieldDefinitionNode[]) =>
    (definition: DefinitionNode): DefinitionNode =>
      definition.kind === Kind.OBJECT_TYPE_DEFINITION
        ? { ...definition, fields: change(definition.fields ?? []) }
        : definition;
  const retyped = (retype: (type: string) => string) =>
    withFields((all) =>
      all.map((one) => (one.name.value === field.name ? { ...one, type: typeNode(retype(print(one.type))) } : one)),
    );
  return draw.pick<Change>([
    { typeName, apply: withFields((all) => [...all, fieldNode("extra: Int")]) },
    {
      typeName,
      fieldName: field.name,
      apply: retyped((type) => (type.endsWith("!") ? type.slice(0, -1) : `${type}!`)),
    },
    {
      typeName,
      fieldName: field.name,
      apply: withListPaths(
        field.name,
        retyped((type) => `[${type}]`),
      ),
    },
    {
      typeName: "Either",
      apply: (definition) =>
        definition.kind === Kind.UNION_TYPE_DEFINITION
          ? { ...definition, types: definition.types?.slice(1) ?? [] }
          : definition,
    },
    {
      typeName: "Color",
      apply: (definition) =>
        definition.kind === Kind.ENUM_TYPE_DEFINITION
          ? {
              ...definition,
              values: [
                ...(definition.values ?? []),
                { ...(definition.values?.[0] as EnumValueDefinitionNode), name: nameNode("PINK") },
              ],
            }
          : definition,
    },
  ]);
}

/** Paths to the result of a field whose value has become a list. */
const withListPaths =
  (fieldName: string, apply: Change["apply"]): Change["apply"] =>
  (definition) =>
    visit(apply(definition), {
      FieldDefinition: (node) => (node.name.value === fieldName ? undefined : false),
      StringValue: (node) => ({ ...node, value: node.value.replaceAll("{$result", "{$result[]") }),
    });

const fieldNode = (sdl: string): FieldDefinitionNode => {
  const [definition] = parse(`type T { ${sdl} }`).definitions;
  return (definition as { fields: readonly FieldDefinitionNode[] }).fields[0] as FieldDefinitionNode;
};
const nameNode = (value: string) => ({ kind: Kind.NAME, value }) as const;
const typeNode = (sdl: string) => parseType(sdl) as FieldDefinitionNode["type"];

const changed = (typeDefs: string, { typeName, apply }: Change): string => {
  const document = parse(typeDefs);
  const isChanged = (definition: DefinitionNode): boolean =>
    "name" in definition && definition.name?.value === typeName;
  return print({
    ...document,
    definitions: document.definitions.map((one) => (isChanged(one) ? apply(one) : one)),
  });
};

/** Returns the same schema with other descriptions, deprecations, optional arguments, orders and unused types. */
function rewritten(typeDefs: string): string {
  const description = { kind: Kind.STRING, value: "Rewritten." } as const;
  const note = { kind: Kind.INPUT_VALUE_DEFINITION, name: nameNode("note"), type: typeNode("String") } as const;
  const deprecated = { kind: Kind.DIRECTIVE, name: nameNode("deprecated") } as const;
  const reversed = <Node>(nodes: readonly Node[] | undefined): readonly Node[] => [...(nodes ?? [])].reverse();
  const document = visit(parse(typeDefs), {
    FieldDefinition: {
      leave: (node) => ({
        ...node,
        description,
        directives: [...(node.directives ?? []), deprecated],
        arguments: [note, ...reversed(node.arguments)],
      }),
    },
    ObjectTypeDefinition: { leave: (node) => ({ ...node, description, fields: reversed(node.fields) }) },
    InputObjectTypeDefinition: { leave: (node) => ({ ...node, description, fields: reversed(node.fields) }) },
    EnumTypeDefinition: { leave: (node) => ({ ...node, values: reversed(node.values) }) },
    UnionTypeDefinition: { leave: (node) => ({ ...node, types: reversed(node.types) }) },
    InterfaceTypeDefinition: {
      leave: (node) => ({ ...node, fields: node.fields?.map((field) => ({ ...field, arguments: [note] })) ?? [] }),
    },
  }) as ASTNode;
  return `${print(document)}\ntype Unreached { a: Int }`;
}

it("gives a field another variant exactly if a type that its value can contain, or its scope, has changed, for random schemas", () => {
  const counts = { changed: 0, kept: 0 };
  fc.assert(
    fc.property(fc.gen(), (gen) => {
      const draw = drawFrom(gen);
      const random = randomSchema(draw);
      const resolvers = randomResolvers(random) as IResolvers;
      const before = variantsOf(random.typeDefs, resolvers);
      expect(variantsOf(rewritten(random.typeDefs), resolvers), random.typeDefs).toEqual(before);

      const change = changeOf(random, draw);
      const next = changed(random.typeDefs, change);
      const isPainted = change.typeName === "Color";
      const after = variantsOf(
        next,
        isPainted ? { ...resolvers, Color: { ...(resolvers.Color as object), PINK: 9 } } : resolvers,
      );
      for (const [coordinate, { variant, scope }] of before) {
        const [typeName = "", fieldName = ""] = coordinate.split(".");
        const field = random.objects[typeName]?.find(({ name }) => name === fieldName) as RandomField;
        const isOwn = typeName === change.typeName && fieldName === change.fieldName;
        const isReached = reachedFrom(random, field).has(change.typeName);
        // A type that only PRIVATE fields lead to by now.
        const isRescoped = after.get(coordinate)?.scope !== scope;
        const isOther = isOwn || isReached || isRescoped;
        counts[isOther ? "changed" : "kept"]++;
        expect(after.get(coordinate)?.variant !== variant, `${coordinate}\n${random.typeDefs}\n${next}`).toBe(isOther);
      }
    }),
    { numRuns: RUNS },
  );
  if (process.env.PROPERTY_RUNS !== undefined) console.log(counts);
  // A property that holds for one kind of field only would prove nothing.
  for (const [kind, count] of Object.entries(counts)) expect(count, kind).toBeGreaterThan(RUNS / 4);
}, 60_000);
