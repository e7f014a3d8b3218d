import {
  type ASTNode,
  type DirectiveNode,
  type GraphQLSchema,
  getNamedType,
  isEnumType,
  valueFromAST,
  valueFromASTUntyped,
} from "graphql";
import { getArgumentValues } from "../../base/graphql-version.js";

type AnnotatedNode = ASTNode & { readonly directives?: readonly DirectiveNode[] | undefined };

export interface Annotated {
  readonly astNode?: AnnotatedNode | null | undefined;
  readonly extensionASTNodes?: readonly AnnotatedNode[];
  readonly extensions?: Readonly<Record<string, unknown>>;
}

/** The directives in the SDL of a type, also of its extensions, or of a field. */
export const directivesOn = ({ astNode, extensionASTNodes = [] }: Annotated): DirectiveNode[] =>
  [astNode, ...extensionASTNodes].flatMap((node) => node?.directives ?? []);

export const directivesNamed = (target: Annotated, name: string): DirectiveNode[] =>
  directivesOn(target).filter((directive) => directive.name.value === name);

/**
 * Returns the arguments of each `@name` on a field or type, from the SDL or from
 * `extensions.directives`, where code-first schemas keep them as `{ name: args }` or `[{ name, args
 * }]`. Throws the GraphQL error if an argument in the SDL is invalid.
 */
export function directivesAt(schema: GraphQLSchema, target: Annotated, name: string): Record<string, unknown>[] {
  const inSdl = directivesNamed(target, name).map((node) => argumentsOf(node, schema));
  if (inSdl.length > 0) return inSdl;
  const directives = target.extensions?.directives as Record<string, unknown> | null | undefined;
  const found: unknown = Array.isArray(directives)
    ? directives.filter((one) => one?.name === name).map((one) => one.args ?? {})
    : directives?.[name];
  return found === undefined ? [] : ([found].flat() as Record<string, unknown>[]);
}

function argumentsOf(node: DirectiveNode, schema: GraphQLSchema): Record<string, unknown> {
  const definition = schema.getDirective(node.name.value);
  const given = (node.arguments ?? []).map((arg) => [arg.name.value, valueFromASTUntyped(arg.value)] as const);
  if (definition === undefined || definition === null) return Object.fromEntries(given);
  // Unknown ones are reported: a schema can be built without GraphQL's own checks.
  const unknown = given.filter(([name]) => !definition.args.some((arg) => arg.name === name));
  return { ...Object.fromEntries(unknown), ...getArgumentValues(definition, node) };
}

/** What a directive expects in the place of its first invalid argument, to end a message with. */
export function expectedArgument(schema: GraphQLSchema, target: Annotated, name: string): string {
  const args = schema.getDirective(name)?.args ?? [];
  for (const given of directivesNamed(target, name).flatMap((node) => node.arguments ?? [])) {
    const type = args.find((arg) => arg.name === given.name.value)?.type;
    if (type === undefined || valueFromAST(given.value, type) !== undefined) continue;
    const named = getNamedType(type);
    if (!isEnumType(named)) return ` Expected a value of the type ${String(type)}.`;
    const names = named.getValues().map((value) => value.name);
    return ` Expected one of ${names.join(", ")}, without quotes.`;
  }
  return "";
}

/** Returns the names that a directive of federation can have: `@link` can rename it. */
export function federationNames(schema: GraphQLSchema, directive: string): string[] {
  const names = new Set([directive, `federation__${directive}`]);
  for (const link of directivesAt(schema, schema, "link")) {
    if (!String(link.url).includes("specs.apollo.dev/federation/")) continue;
    if (typeof link.as === "string") names.add(`${link.as}__${directive}`);
    for (const one of Array.isArray(link.import) ? (link.import as ({ name?: unknown; as?: unknown } | null)[]) : [])
      if (one?.name === `@${directive}` && typeof one.as === "string") names.add(one.as.replace(/^@/, ""));
  }
  return [...names];
}
