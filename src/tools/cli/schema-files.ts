/** The schema that `check` is about: from SDL, or from a module. */
import { readFile } from "node:fs/promises";
import { extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import {
  buildASTSchema,
  type DefinitionNode,
  type DirectiveNode,
  type DocumentNode,
  GraphQLError,
  type GraphQLField,
  type GraphQLSchema,
  getNamedType,
  isObjectType,
  isSchema,
  isTypeDefinitionNode,
  isTypeExtensionNode,
  Kind,
  KnownDirectivesRule,
  type Location,
  parse,
  Source,
  specifiedDirectives,
  specifiedScalarTypes,
  UniqueDirectivesPerLocationRule,
  validate,
  validateSchema,
  visit,
} from "graphql";
import { messageOf } from "../../core/base/errors.js";
import { entityKeysOf } from "../../core/directive/compile/reference.js";
import { CACHED_SDL } from "../../generated/schema.js";

/** Reads the schema of a module, or of SDL files. `policies`: of the options, by coordinate. */
export async function readSchema(paths: readonly string[], policies: object = {}): Promise<GraphQLSchema> {
  const [path = ""] = paths;
  if (!MODULE.test(extname(path)))
    return schemaOf(await Promise.all(paths.map(readSdl)), new Set(Object.keys(policies)));
  if (paths.length > 1) throw new Error(`${path}: expected one module, got ${paths.length} files`);
  const exported = (await import(pathToFileURL(resolve(path)).href)) as Readonly<Record<string, unknown>>;
  const schema = await (exported.schema ?? exported.default);
  if (isSchema(schema)) return schema;
  throw new Error(`${path}: expected a module that exports a GraphQLSchema as \`schema\` or as its default, got none`);
}

const MODULE = /^\.[cm]?[jt]sx?$/;

async function readSdl(path: string): Promise<DocumentNode> {
  const source = new Source(await readFile(path, "utf8"), path);
  try {
    return parse(source);
  } catch (error) {
    const [at] = error instanceof GraphQLError ? (error.locations ?? []) : [];
    throw new Error(`${path}${at === undefined ? "" : `:${at.line}:${at.column}`}: ${messageOf(error)}`);
  }
}

/**
 * Builds a schema as a server would: the types of all files are merged, and directives and scalars
 * that no file defines, such as those of federation, can be used with any arguments.
 */
function schemaOf(documents: readonly DocumentNode[], cached: Set<string>): GraphQLSchema {
  const own = parse(CACHED_SDL, { noLocation: true }).definitions;
  const definitions = withStubs(merged([...own, ...documents.flatMap((document) => document.definitions)]));
  const schema = buildASTSchema({ kind: Kind.DOCUMENT, definitions }, { assumeValidSDL: true });
  const [mistake] = validateSchema(schema);
  if (mistake !== undefined) throw new Error(`the schema is invalid: ${mistake.message}`);
  addResolvers(schema, cached);
  return schema;
}

/** One definition of each type, with extensions. The first definition of a directive counts. */
function merged(definitions: readonly DefinitionNode[]): DefinitionNode[] {
  const defined = new Set<string>();
  const asKind = (node: DefinitionNode, from: string, to: string): DefinitionNode =>
    ({ ...node, kind: node.kind.replace(from, to) }) as DefinitionNode;
  return definitions
    .toSorted((one, other) => +isTypeExtensionNode(one) - +isTypeExtensionNode(other))
    .flatMap((node) => {
      const isDirective = node.kind === Kind.DIRECTIVE_DEFINITION;
      if (!isDirective && !isTypeDefinitionNode(node) && !isTypeExtensionNode(node)) return [node];
      const name = `${isDirective ? "@" : ""}${node.name.value}`;
      const isRepeated = defined.has(name);
      defined.add(name);
      if (isDirective) return isRepeated ? [] : [node];
      if (isTypeExtensionNode(node)) return [isRepeated ? node : asKind(node, "Extension", "Definition")];
      return [isRepeated ? asKind(node, "Definition", "Extension") : node];
    });
}

/** Adds definitions of directives, and of scalars of federation, that are used and not defined. */
function withStubs(definitions: DefinitionNode[]): DefinitionNode[] {
  const known = new Set([
    ...specifiedDirectives.map(({ name }) => `@${name}`),
    ...specifiedScalarTypes.map(({ name }) => name),
  ]);
  for (const node of definitions)
    if (node.kind === Kind.DIRECTIVE_DEFINITION) known.add(`@${node.name.value}`);
    else if (isTypeDefinitionNode(node)) known.add(node.name.value);
  const stubs = new Map<string, string>();
  visit({ kind: Kind.DOCUMENT, definitions } as DocumentNode, {
    Directive({ name: { value } }) {
      if (!known.has(`@${value}`)) stubs.set(`@${value}`, `directive @${value} repeatable on ${LOCATIONS}`);
    },
    NamedType({ name: { value } }) {
      if (!known.has(value) && FEDERATION_SCALAR.test(value)) stubs.set(value, `scalar ${value}`);
    },
  });
  return stubs.size === 0 ? definitions : [...definitions, ...parse([...stubs.values()].join("\n")).definitions];
}

const LOCATIONS =
  "SCHEMA | SCALAR | OBJECT | FIELD_DEFINITION | ARGUMENT_DEFINITION | INTERFACE | UNION | ENUM | ENUM_VALUE | INPUT_OBJECT | INPUT_FIELD_DEFINITION";
const FEDERATION_SCALAR = /^(_?FieldSet|_Any|link__Import|federation__\w+)$/;

/**
 * SDL has no resolvers. Fields with a policy have one, or the policy would be of no use, and so
 * have fields of root types and fields with arguments. Entity types with a policy have a
 * `__resolveReference`.
 */
function addResolvers(schema: GraphQLSchema, policies: ReadonlySet<string>): void {
  const roots: readonly unknown[] = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()];
  const isCached = (coordinate: string): boolean =>
    policies.has(coordinate) || directivesAt(schema, coordinate).length > 0;
  const resolve = (): undefined => undefined;
  const all: GraphQLField<unknown, unknown>[] = [];
  const types = Object.values(schema.getTypeMap()).filter(({ name }) => !name.startsWith("__"));
  for (const type of types.filter(isObjectType)) {
    if (isCached(type.name) && entityKeysOf(schema, type).length > 0)
      type.extensions = { ...type.extensions, apollo: { subgraph: { resolveReference: resolve } } };
    for (const field of Object.values(type.getFields())) {
      all.push(field);
      if (roots.includes(type) || field.args.length > 0 || isCached(`${type.name}.${field.name}`))
        field.resolve = resolve;
    }
  }
  // If no field is known to load the type's values, any of them can be the one.
  for (const { name } of types.filter((type) => isCached(type.name))) {
    const returning = all.filter(({ type }) => getNamedType(type).name === name);
    if (returning.every((field) => field.resolve === undefined)) for (const field of returning) field.resolve = resolve;
  }
}

/** `applyCached` reads directives on fields and types only. */
export function misplacedDirectives(schema: GraphQLSchema): string[] {
  const definitions = Object.values(schema.getTypeMap()).flatMap(({ astNode, extensionASTNodes = [] }) =>
    [astNode, ...extensionASTNodes].filter((node) => node != null),
  );
  const document = { kind: Kind.DOCUMENT, definitions } as DocumentNode;
  return validate(schema, document, [KnownDirectivesRule, UniqueDirectivesPerLocationRule]).flatMap(
    ({ message, nodes = [] }) => (OWN.test(message) ? [`${textOf(nodes.at(-1)?.loc)}${message}`] : []),
  );
}

const OWN = /"@(cached|invalidates)"/;

/** Returns where the directive at a coordinate is: `schema.graphql:4:7 `. Empty: in no file. */
export function placeOf(schema: GraphQLSchema, coordinate = ""): string {
  const [typeName = ""] = coordinate.split(".");
  const found = [...directivesAt(schema, coordinate), ...directivesAt(schema, typeName)];
  return textOf(found[0]?.loc);
}

function directivesAt(schema: GraphQLSchema, coordinate: string): DirectiveNode[] {
  const [typeName = "", fieldName] = coordinate.split(".");
  const type = schema.getType(typeName);
  const fields = type !== undefined && "getFields" in type ? type.getFields() : {};
  const nodes =
    fieldName === undefined ? [type?.astNode, ...(type?.extensionASTNodes ?? [])] : [fields[fieldName]?.astNode];
  return nodes
    .flatMap((node) => node?.directives ?? [])
    .filter(({ name }) => /^(cached|invalidates)$/.test(name.value));
}

/** Positions in a text without a name, which graphql calls so, say nothing. */
const textOf = (location: Location | undefined): string =>
  location === undefined || location.source.name === "GraphQL request"
    ? ""
    : `${location.source.name}:${location.startToken.line}:${location.startToken.column}  `;
