import { type DocumentNode, type GraphQLSchema, getOperationAST } from "graphql";
import type { CacheParts } from "../../parts.js";
import { markedFields } from "../compile/own-resolver.js";

/** Reports once that a server answers cached fields without their resolvers, as a gateway in proxy mode does. The schema does not show it. */
export class UnaskedFields {
  readonly #parts: CacheParts;
  readonly #caller: string;
  #isDecided = false;

  constructor(parts: CacheParts, caller: string) {
    this.#parts = parts;
    this.#caller = caller;
  }

  /** Whether a cached field has been answered, after which there is nothing more to find out. */
  get isDecided(): boolean {
    return this.#isDecided;
  }

  check({ schema, document, operationName }: ExecutedOperation, data: unknown): void {
    if (this.#isDecided) return;
    const { counters, rules, logger } = this.#parts;
    const marked = markedFields(schema, this.#parts) ?? new Set();
    // Another server of the same cache can have fields of these names.
    const isCached = (coordinate: string): boolean => marked.has(coordinate) && rules.fields.has(coordinate);
    const queryType = schema.getQueryType();
    if (!Object.keys(queryType?.getFields() ?? {}).some((name) => isCached(`${queryType?.name}.${name}`))) {
      this.#isDecided = true;
      return;
    }
    const answered = rootFieldsIn(schema, document, operationName, data).filter(isCached);
    if (answered.length === 0) return;
    this.#isDecided = true;
    for (const [coordinate] of counters.all()) if (rules.fields.has(coordinate)) return;
    logger.warn(
      `graphql-cached: ${this.#caller}: \`${answered[0]}\` was answered without its resolver, so nothing is cached: another server executes the queries, as with a gateway in proxy mode, or a response cache has answered; use the cache in the service that has the resolvers, or in a gateway with resolvers, such as one of subgraphs or wrapSchema()`,
    );
  }
}

export interface ExecutedOperation {
  readonly schema: GraphQLSchema;
  readonly document: DocumentNode;
  readonly operationName?: string | null | undefined;
}

function rootFieldsIn(
  schema: GraphQLSchema,
  document: DocumentNode,
  operationName: string | null | undefined,
  data: unknown,
): string[] {
  const operation = getOperationAST(document, operationName);
  if (operation?.operation !== "query" || typeof data !== "object" || data === null) return [];
  return operation.selectionSet.selections.flatMap((selection) => {
    if (selection.kind !== "Field") return [];
    const value = (data as Readonly<Record<string, unknown>>)[(selection.alias ?? selection.name).value];
    return value === undefined || value === null ? [] : [`${schema.getQueryType()?.name}.${selection.name.value}`];
  });
}
