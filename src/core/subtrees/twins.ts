import {
  type FieldNode,
  type GraphQLField,
  GraphQLList,
  type GraphQLNamedType,
  GraphQLNonNull,
  GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLResolveInfo,
  GraphQLScalarType,
  GraphQLSchema,
  type GraphQLSchemaConfig,
  isListType,
  isNonNullType,
} from "graphql";
import { getOrMake } from "../base/multimap.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { ORIGINAL } from "../directive/run/written-nodes.js";

/**
 * The fields that take the place of others in rewritten queries, and the schema of builds. A twin returns a leaf, so that the
 * executor does not look into its value. It is a property of the fields of the query type that is not enumerable: introspection, SDL, and
 * servers that wrap all resolvers do not see it, and copies of the schema do not have it.
 */
export class Twins {
  readonly leaf = hiddenScalar("$Completed");
  readonly #buildSchemas = new WeakMap<GraphQLSchema, GraphQLSchema>();

  add(queryType: GraphQLObjectType, fieldNames: readonly string[]): void {
    const fields = queryType.getFields();
    for (const name of fieldNames) {
      const field = fields[name] as AnyField;
      const type = isNonNullType(field.type) ? new GraphQLNonNull(this.leaf) : this.leaf;
      define(queryType, twinNameOf(name), field, { name: twinNameOf(name), type, args: field.args });
    }
    this.#addErrors(queryType);
  }

  /** Adds the twins of fields that return lists to a type, and the field for errors. They have the names of their fields, which messages of errors contain. */
  addLists(type: GraphQLObjectType, fieldNames: readonly string[]): void {
    const nullable = (declared: GraphQLOutputType): GraphQLList<GraphQLOutputType> | GraphQLScalarType =>
      isListType(declared) ? new GraphQLList(completed(declared.ofType)) : this.leaf;
    const completed = (declared: GraphQLOutputType): GraphQLOutputType =>
      isNonNullType(declared) ? new GraphQLNonNull(nullable(declared.ofType)) : nullable(declared);
    for (const name of fieldNames) {
      const field = type.getFields()[name] as AnyField;
      define(type, listTwinNameOf(name), field, { name, type: completed(field.type), args: field.args });
    }
    this.#addErrors(type);
  }

  #addErrors(type: GraphQLObjectType): void {
    const [first] = Object.values(type.getFields());
    if (first === undefined) return;
    define(type, ERRORS_FIELD, first as AnyField, { name: ERRORS_FIELD, type: new GraphQLList(this.leaf), args: [] });
  }

  /** Returns the schema with which objects of types are executed: its query type has a field for each of them, of the name of the type. */
  objectSchemaOf(schema: GraphQLSchema, types: readonly GraphQLObjectType[]): GraphQLSchema {
    const fields = Object.fromEntries(types.map((type) => [type.name, { type, resolve }]));
    const query = new GraphQLObjectType({ name: "Hidden", fields });
    query.name = "$Objects";
    return withVariables({ ...schema.toConfig(), query, mutation: undefined, subscription: undefined });
  }

  /** Returns the schema that builds are executed with: the same types, and the type of variables. */
  buildSchemaOf(schema: GraphQLSchema): GraphQLSchema {
    return getOrMake(this.#buildSchemas, schema, () => withVariables(schema.toConfig()));
  }
}

/** The field of a rewritten query that returns the errors of its subtrees. No client can write its name. */
export const ERRORS_FIELD = "$errors";
/** The type of the variables of nested executions: their values were coerced before. */
export const COERCED = "$Coerced";

/** Returns the name of the twin of a field. No client can write it. */
export const twinNameOf = (fieldName: string): string => `${fieldName}$subtree`;
/** Returns the name of the twin of a field that returns a list, whose objects are entries. */
export const listTwinNameOf = (fieldName: string): string => `${fieldName}$objects`;

type Resolver = NonNullable<AnyField["resolve"]>;

/** Leads from the node of a rewritten document to what resolves it: the schema can be used by several servers. */
const RESOLVER: unique symbol = Symbol("graphql-cached.subtree");

/** Returns a node of a rewritten document that `resolve` is called for. */
export const resolvedBy = <Node extends object>(node: Node, resolve: Resolver): Node => ({
  ...node,
  [RESOLVER]: resolve,
});

/** Returns the node of a twin in the place of that of its field, under the same response key. */
export function twinNode(node: FieldNode, name: string): FieldNode {
  const { selectionSet: _below, ...others } = node;
  const alias = node.alias ?? node.name;
  return { ...others, alias, name: { kind: node.name.kind, value: name }, [ORIGINAL]: node } as FieldNode;
}

/** Returns the nodes that the client has written for the field of a twin, as far as they are executed. */
export const originalsOf = ({ fieldNodes }: Pick<GraphQLResolveInfo, "fieldNodes">): readonly FieldNode[] =>
  (fieldNodes as readonly (FieldNode & { readonly [ORIGINAL]: FieldNode })[]).map((twin) => twin[ORIGINAL]);

const resolve: Resolver = (source, args, context, info: GraphQLResolveInfo) =>
  (info.fieldNodes[0] as { readonly [RESOLVER]?: Resolver } | undefined)?.[RESOLVER]?.(source, args, context, info);

function hiddenScalar(name: string): GraphQLScalarType {
  const type = new GraphQLScalarType({
    name: "Hidden",
    serialize: (value) => value,
    parseValue: (value) => value,
    parseLiteral: () => undefined,
  });
  type.name = name;
  return type;
}

function define(
  type: GraphQLObjectType,
  property: string,
  like: AnyField,
  own: Pick<AnyField, "name" | "type" | "args">,
): void {
  const fields = type.getFields() as Record<string, GraphQLField<unknown, unknown>>;
  if (Object.hasOwn(fields, property)) return;
  const twin = Object.assign(Object.create(Object.getPrototypeOf(like) as object) as AnyField, like, own, {
    resolve,
    subscribe: undefined,
  });
  Object.defineProperty(fields, property, { value: twin, enumerable: false });
}

const withVariables = (config: GraphQLSchemaConfig & { readonly types: readonly GraphQLNamedType[] }): GraphQLSchema =>
  new GraphQLSchema({ ...config, types: [...config.types, hiddenScalar(COERCED)], assumeValid: true });
