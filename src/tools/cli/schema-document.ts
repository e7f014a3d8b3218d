import {
  buildASTSchema,
  type DefinitionNode,
  type DirectiveNode,
  type DocumentNode,
  GraphQLError,
  type GraphQLSchema,
  isTypeDefinitionNode,
  isTypeExtensionNode,
  Kind,
  type Location,
  parse,
  Source,
  specifiedDirectives,
  specifiedScalarTypes,
  type TypeDefinitionNode,
  visit,
} from "graphql";
import { messageOf } from "../../core/base/errors.js";
import { type DirectiveNames, renameDirectives } from "../../core/directive/compile/directive-names.js";
import { CACHED_SDL } from "../../generated/schema.js";
import { CliError } from "./terminal.js";

/**
 * Builds the schema of `files` as a server would: the types of all files are merged, types that are only extended
 * are defined, `@cached` and `@invalidates` are those of this version, and directives that no file defines, such as
 * those of federation, can be used with any arguments.
 *
 * Throws `CliError` for a file that cannot be parsed, and for types that do not fit together.
 */
export function readSchema(files: readonly SchemaFile[], names: Required<DirectiveNames>): OfflineSchema {
  const own = parse(renameDirectives(CACHED_SDL, names)).definitions;
  const document = merge([...own, ...files.flatMap(parseFile)], new Set(own.map(nameOf)));
  const isOwn = ({ name }: DirectiveNode): boolean => [names.directive, names.invalidates].includes(name.value);
  const uses = usesOf(document, isOwn);
  if (!document.definitions.some((node) => isTypeDefinitionNode(node) && !own.includes(node)))
    throw new CliError(`expected type definitions in ${files.map(({ name }) => name).join(", ")}, got none`);
  const complete = withStubs(document);
  // What is wrong with our own directives is a finding, so the other definitions are validated without them.
  const others = visit(complete, { Directive: (node) => (isOwn(node) ? null : undefined) });
  try {
    buildASTSchema(others);
  } catch (error) {
    throw new CliError(`the schema is invalid: ${messageOf(error).replaceAll(/\n+/g, " ")}`);
  }
  return { schema: buildASTSchema(complete, { assumeValidSDL: true }), uses, hasResolvers: false };
}

export interface SchemaFile {
  readonly name: string;
  readonly text: string;
}

export interface DirectiveUse {
  readonly node: DirectiveNode;
  readonly parentKind: string;
  /** The field or type; for anything else, such as an argument, the closest type with its name. */
  readonly coordinate: string;
}

/** A schema that was read from files, without resolvers, or one with resolvers that a module exports. */
export interface OfflineSchema {
  readonly schema: GraphQLSchema;
  readonly uses: readonly DirectiveUse[];
  readonly hasResolvers: boolean;
}

/** Everywhere in a schema that a directive can be. */
const LOCATIONS =
  "SCHEMA | SCALAR | OBJECT | FIELD_DEFINITION | ARGUMENT_DEFINITION | INTERFACE | UNION | ENUM | ENUM_VALUE | INPUT_OBJECT | INPUT_FIELD_DEFINITION";
/** The type of the arguments of directives that no file defines. */
const ANYTHING = "GraphqlCachedAnything";
/** Scalars of federation, which a server defines. */
const FEDERATION_SCALAR = /^(_?FieldSet|_Any|link__Import|federation__\w+)$/;

/** Returns a schema that a module exports in the same form. One that was built in code has its policies in extensions. */
export function executableSchema(schema: GraphQLSchema, names: Required<DirectiveNames>): OfflineSchema {
  const definitions = Object.values(schema.getTypeMap()).flatMap(({ astNode, extensionASTNodes }) => [
    ...(astNode == null ? [] : [astNode]),
    ...extensionASTNodes,
  ]) as DefinitionNode[];
  const isOwn = ({ name }: DirectiveNode): boolean => [names.directive, names.invalidates].includes(name.value);
  return { schema, uses: usesOf({ kind: Kind.DOCUMENT, definitions }, isOwn), hasResolvers: true };
}

function parseFile({ name, text }: SchemaFile): readonly DefinitionNode[] {
  let document: DocumentNode;
  try {
    document = parse(new Source(text, name));
  } catch (error) {
    const [at] = error instanceof GraphQLError ? (error.locations ?? []) : [];
    const place = at === undefined ? name : `${name}:${at.line}:${at.column}`;
    throw new CliError(`${place}: expected a GraphQL schema, got text that cannot be parsed: ${messageOf(error)}`);
  }
  const operation = document.definitions.find(
    ({ kind }) => kind === Kind.OPERATION_DEFINITION || kind === Kind.FRAGMENT_DEFINITION,
  );
  if (operation?.loc !== undefined)
    throw new CliError(`${placeOf(operation.loc)}: expected a GraphQL schema, got a query`);
  return document.definitions;
}

const nameOf = (node: DefinitionNode): string =>
  `${node.kind === Kind.DIRECTIVE_DEFINITION ? "@" : ""}${"name" in node ? (node.name?.value ?? "") : ""}`;

/** Makes one definition of each type, with extensions. `own` are the names whose first definition counts. */
function merge(definitions: readonly DefinitionNode[], own: ReadonlySet<string>): DocumentNode {
  const defined = new Set<string>();
  const ofTypes = definitions.filter((node) => !isTypeExtensionNode(node));
  const merged = ofTypes.flatMap((node): DefinitionNode[] => {
    const name = nameOf(node);
    const isRepeated = name !== "" && defined.has(name);
    defined.add(name);
    if (!isRepeated) return [node];
    if (own.has(name) || node.kind === Kind.DIRECTIVE_DEFINITION) return [];
    return isTypeDefinitionNode(node) ? [asExtension(node)] : [node];
  });
  for (const node of definitions.filter(isTypeExtensionNode)) {
    merged.push(defined.has(node.name.value) ? node : asDefinition(node));
    defined.add(node.name.value);
  }
  return { kind: Kind.DOCUMENT, definitions: merged };
}

const asExtension = (node: TypeDefinitionNode): DefinitionNode =>
  ({ ...node, kind: node.kind.replace("Definition", "Extension") }) as DefinitionNode;
const asDefinition = (node: DefinitionNode): DefinitionNode =>
  ({ ...node, kind: node.kind.replace("Extension", "Definition") }) as DefinitionNode;

/** Adds definitions of directives and of scalars of federation that are used and not defined. */
function withStubs({ definitions }: DocumentNode): DocumentNode {
  const directives = new Set(specifiedDirectives.map(({ name }) => name));
  const types = new Set([...specifiedScalarTypes.map(({ name }) => name), ANYTHING]);
  for (const node of definitions)
    if (node.kind === Kind.DIRECTIVE_DEFINITION) directives.add(node.name.value);
    else if (isTypeDefinitionNode(node)) types.add(node.name.value);
  const stubs = new Map<string, Set<string>>();
  const scalars = new Set<string>();
  visit({ kind: Kind.DOCUMENT, definitions } as DocumentNode, {
    Directive(node) {
      if (directives.has(node.name.value)) return;
      const names = stubs.get(node.name.value) ?? new Set();
      stubs.set(node.name.value, names);
      for (const argument of node.arguments ?? []) names.add(argument.name.value);
    },
    NamedType({ name: { value } }) {
      if (!types.has(value) && FEDERATION_SCALAR.test(value)) scalars.add(value);
    },
  });
  const text = [
    `scalar ${ANYTHING}`,
    ...[...scalars].map((name) => `scalar ${name}`),
    ...[...stubs].map(([name, args]) => {
      const parameters = [...args].map((arg) => `${arg}: ${ANYTHING}`).join(", ");
      return `directive @${name}${parameters === "" ? "" : `(${parameters})`} repeatable on ${LOCATIONS}`;
    }),
  ].join("\n");
  return { kind: Kind.DOCUMENT, definitions: [...definitions, ...parse(text).definitions] };
}

function usesOf({ definitions }: DocumentNode, isOwn: (node: DirectiveNode) => boolean): DirectiveUse[] {
  const uses: DirectiveUse[] = [];
  for (const definition of definitions) {
    if (definition.kind === Kind.DIRECTIVE_DEFINITION) continue;
    const name = nameOf(definition) || "schema";
    const add = (
      { kind, directives = [] }: { readonly kind: string; readonly directives?: readonly DirectiveNode[] | undefined },
      coordinate: string,
    ): void => {
      for (const node of directives) if (isOwn(node)) uses.push({ node, parentKind: kind, coordinate });
    };
    if ("directives" in definition) add(definition, name);
    const members = {
      fields: "fields" in definition ? (definition.fields ?? []) : [],
      values: "values" in definition ? (definition.values ?? []) : [],
    };
    for (const member of [...members.fields, ...members.values]) {
      const coordinate = `${name}.${member.name.value}`;
      add(member, coordinate);
      for (const argument of "arguments" in member ? (member.arguments ?? []) : [])
        add(argument, `${coordinate}(${argument.name.value}:)`);
    }
  }
  return uses;
}

/** Returns a place in a file, such as `schema.graphql:4:7`. */
export function placeOf({ source, startToken: { line, column } }: Location): string {
  return `${source.name}:${line}:${column}`;
}
