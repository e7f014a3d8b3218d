import {
  type DocumentNode,
  type GraphQLCompositeType,
  type GraphQLSchema,
  getNamedType,
  getOperationAST,
  isAbstractType,
  isCompositeType,
  isUnionType,
  Kind,
  parse,
  print,
  type SelectionSetNode,
  validate,
} from "graphql";
import { type CachedError, describeSetting, messageOf, optionInvalid } from "../../core/base/errors.js";

/**
 * Parses and validates a query. `place` is its name in error messages. Throws `CACHED_OPTION_INVALID` for anything
 * that is not one query which the schema accepts: mutations and subscriptions cannot be run several times.
 */
export function prepareQuery(schema: GraphQLSchema, given: TestQuery, place: string): PreparedQuery {
  const refuse = (mistake: string): never => {
    throw invalid(`${place}: ${mistake}`);
  };
  const { query, variables, operationName } = isWrapped(given)
    ? given
    : { query: given, variables: undefined, operationName: undefined };
  if (typeof query !== "string" && (query as Partial<DocumentNode> | undefined)?.kind !== Kind.DOCUMENT)
    refuse(
      `expected a query as text, as a parsed document, or as { query, variables }, got ${describeSetting(given ?? query)}`,
    );
  let document: DocumentNode;
  try {
    document = typeof query === "string" ? parse(query) : query;
  } catch (error) {
    return refuse(`expected a GraphQL query, got text that cannot be parsed: ${messageOf(error)}`);
  }
  const operation = getOperationAST(document, operationName);
  if (operation === null || operation === undefined)
    return refuse(
      operationName === undefined
        ? "expected a document with one operation; pass { query, operationName } to choose one of several"
        : `expected an operation named \`${operationName}\`, got a document without it`,
    );
  if (operation.operation !== "query")
    refuse(
      `expected a query, got a ${operation.operation}: the check executes each operation several times; execute it yourself before the check`,
    );
  const mistakes = validate(schema, document);
  if (mistakes.length > 0)
    refuse(`expected a query that the schema accepts: ${mistakes.map(({ message }) => message).join("; ")}`);
  return {
    label: `${place} (${shorten(typeof query === "string" ? query : print(query))}${variablesText(variables)})`,
    document,
    variables,
    operationName,
    coordinates: coordinatesOf(schema, document, operation.selectionSet),
  };
}

export const invalid = (mistake: string): CachedError => optionInvalid(mistake);

/** A query to execute: as text, parsed, or with variables. */
export type TestQuery =
  | string
  | DocumentNode
  | {
      readonly query: string | DocumentNode;
      readonly variables?: Readonly<Record<string, unknown>> | undefined;
      /** Required if the document has several operations. */
      readonly operationName?: string | undefined;
    };

/** A query that has been checked against a schema. */
export interface PreparedQuery {
  /** What error messages call it: its position and the beginning of its text. */
  readonly label: string;
  readonly document: DocumentNode;
  readonly variables: Readonly<Record<string, unknown>> | undefined;
  readonly operationName: string | undefined;
  /** The coordinates of the fields at each path of response keys, such as `movie.title`. */
  readonly coordinates: ReadonlyMap<string, readonly string[]>;
}

const isWrapped = (given: TestQuery): given is Exclude<TestQuery, string | DocumentNode> =>
  typeof given === "object" && given !== null && "query" in given;

function shorten(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  return `\`${line.length > 60 ? `${line.slice(0, 59)}…` : line}\``;
}

function variablesText(variables: Readonly<Record<string, unknown>> | undefined): string {
  if (variables === undefined) return "";
  return ` with ${shorten(JSON.stringify(variables, (_, value) => (typeof value === "bigint" ? String(value) : value)))}`;
}

/** Fields of abstract types are those of each object type that the value can have. */
function coordinatesOf(
  schema: GraphQLSchema,
  document: DocumentNode,
  selections: SelectionSetNode,
): Map<string, readonly string[]> {
  const found = new Map<string, string[]>();
  const visit = ({ selections: nodes }: SelectionSetNode, type: GraphQLCompositeType, prefix: string): void => {
    for (const node of nodes) {
      if (node.kind === Kind.FIELD) {
        const path = `${prefix}${node.alias?.value ?? node.name.value}`;
        const types = isAbstractType(type) ? schema.getPossibleTypes(type) : [type];
        const coordinates = types
          .filter((one) => Object.hasOwn(one.getFields(), node.name.value))
          .map(({ name }) => `${name}.${node.name.value}`);
        found.set(path, [...new Set([...(found.get(path) ?? []), ...coordinates])]);
        const returned = isUnionType(type) ? undefined : type.getFields()[node.name.value]?.type;
        const below = returned === undefined ? undefined : getNamedType(returned);
        if (node.selectionSet !== undefined && isCompositeType(below)) visit(node.selectionSet, below, `${path}.`);
        continue;
      }
      const fragment =
        node.kind === Kind.INLINE_FRAGMENT
          ? node
          : document.definitions.find(
              (one) => one.kind === Kind.FRAGMENT_DEFINITION && one.name.value === node.name.value,
            );
      if (fragment === undefined || !("typeCondition" in fragment)) continue;
      const condition = fragment.typeCondition === undefined ? type : schema.getType(fragment.typeCondition.name.value);
      if (isCompositeType(condition)) visit(fragment.selectionSet, condition, prefix);
    }
  };
  const root = schema.getQueryType();
  if (root !== null && root !== undefined) visit(selections, root, "");
  return found;
}
