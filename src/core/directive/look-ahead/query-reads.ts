import type { FieldNode, GraphQLResolveInfo } from "graphql";
import { isPlainObject } from "../../base/built-in.js";
import { infoWith, mapVariables } from "../../base/graphql-version.js";
import type { QueryExtent } from "../../schema-rules.js";
import type { Outline } from "./selection.js";

/** What one load has read of the query so far. */
export class QueryReads {
  #isSelectionRead = false;
  #isOperationRead = false;
  /** Whether variables or fragments were read that the selection does not contain. */
  #isRestRead = false;
  #isNameRead = false;
  #areDefinitionsRead = false;
  #areAllFragmentsRead = false;
  #unkeyable: string | undefined;
  readonly #outline: () => Outline;

  /** `outline` returns the outline of what is selected below the field. */
  constructor(outline: () => Outline) {
    this.#outline = outline;
  }

  /**
   * The part of the query that the load may depend on.
   *
   * A load that takes all fragments and variable definitions of the document, but not the selection
   * of the operation, builds a document from its own field nodes, as `delegateToSchema` of
   * graphql-tools does. It also takes the operation's name and all variables, and sends only those
   * variables and fragments that the selection uses.
   */
  get extent(): QueryExtent {
    if (this.#isOperationRead || (this.#isRestRead && !this.#delegates)) return "operation";
    return this.#isSelectionRead || this.#isRestRead || this.#isNameRead ? "selection" : "none";
  }

  /** What the load has read that no key contains, as a path into `info`. */
  get unkeyable(): string | undefined {
    return this.#unkeyable ?? (this.#isNameRead && !this.#delegates ? "info.operation.name" : undefined);
  }

  get #delegates(): boolean {
    return this.#areAllFragmentsRead && this.#areDefinitionsRead && !this.#isOperationRead;
  }

  readonly selection = (): void => {
    this.#isSelectionRead = true;
  };

  readonly operation = (): void => {
    this.#isOperationRead = true;
  };

  readonly rest = (): void => {
    this.#isRestRead = true;
  };

  readonly name = (): void => {
    this.#isNameRead = true;
  };

  readonly variable = (name: string): void => {
    if (this.#outline().variables.has(name)) this.#isSelectionRead = true;
    else this.#isRestRead = true;
  };

  readonly fragment = (name: string): void => {
    if (this.#outline().fragments.has(name)) this.#isSelectionRead = true;
    else this.#isRestRead = true;
  };

  readonly allFragments = (): void => {
    this.#isRestRead = true;
    this.#areAllFragmentsRead = true;
  };

  readonly definitions = (): void => {
    this.#isRestRead = true;
    this.#areDefinitionsRead = true;
  };

  /** Returns a function that records that `path` was read, which no key contains. */
  readonly never = (path: string) => (): void => {
    this.#unkeyable ??= path;
  };
}

/**
 * Returns an `info` for one load that records in `reads` what the load reads of the query, also
 * after an await and through a copy of `info`. Making such a copy is no read: the accessors are on
 * field nodes and on the operation, which are made for this load. Free are `fieldName`, `path`, the
 * types, the schema, and the name, alias and arguments of the field nodes.
 *
 * `hasSelection`: whether the field returns a type with fields. For others, the selection is
 * always empty, and reading it is free too. `hasKeyedArguments`: whether the arguments of the field nodes are
 * those of the load. Those of `_entities` are not: they have all representations.
 */
export function observeQuery(
  info: GraphQLResolveInfo,
  reads: QueryReads,
  field: { readonly hasSelection: boolean; readonly hasKeyedArguments: boolean },
): GraphQLResolveInfo {
  const { fieldNodes, operation, fragments, variableValues, rootValue } = info;
  const observed = infoWith(info, {
    fieldNodes: fieldNodes.length === 0 ? noFieldNodes(reads) : fieldNodes.map((node) => fieldNode(node, reads, field)),
    operation: operationNode(operation, reads),
    fragments: observedRecord(fragments, reads.fragment, reads.allFragments),
    variableValues: mapVariables(variableValues, (values) => observedRecord(values, reads.variable, reads.rest)),
  });
  // The root value is the server's own object, so only reading it at all can be observed. Servers
  // without one set it to undefined or to an empty object.
  if (!isEmptyRoot(rootValue)) observe(observed, "rootValue", reads.never("info.rootValue"));
  return observed;
}

/** Whether a root value has nothing that fields could be resolved from. */
export const isEmptyRoot = (rootValue: unknown): boolean =>
  rootValue === undefined || rootValue === null || (isPlainObject(rootValue) && Object.keys(rootValue).length === 0);

function fieldNode(
  node: FieldNode,
  reads: QueryReads,
  { hasSelection, hasKeyedArguments }: Parameters<typeof observeQuery>[2],
): FieldNode {
  const copy = { ...node };
  if (hasSelection) observe(copy, "selectionSet", reads.selection);
  if (!hasKeyedArguments) observe(copy, "arguments", reads.operation);
  observe(copy, "directives", reads.selection);
  hideSource(copy, "info.fieldNodes[].loc", reads);
  return copy;
}

/** A worker has no query, so every read of its field nodes is a read of the selection. */
const noFieldNodes = (reads: QueryReads): FieldNode[] => observedRecord([], reads.selection, reads.selection);

function operationNode(
  operation: GraphQLResolveInfo["operation"] | undefined,
  reads: QueryReads,
): typeof operation & object {
  if (operation === undefined) return observedRecord({}, reads.operation, reads.operation) as never;
  const copy = { ...operation };
  observe(copy, "name", reads.name);
  observe(copy, "operation", reads.selection);
  observe(copy, "selectionSet", reads.operation);
  observe(copy, "directives", reads.operation);
  observe(copy, "variableDefinitions", reads.definitions);
  hideSource(copy, "info.operation.loc", reads);
  return copy;
}

/** The location of a node leads to the text of the whole query. A copy of the node goes without it. */
const hideSource = (node: object, path: string, reads: QueryReads): void =>
  observe(node, "loc", reads.never(path), false);

/** Replaces a property of `target` by an accessor that reports reads. */
function observe(target: object, property: string, onRead: () => void, enumerable = true): void {
  let value: unknown = (target as Record<string, unknown>)[property];
  Object.defineProperty(target, property, {
    configurable: true,
    enumerable,
    get: () => {
      onRead();
      return value;
    },
    set: (next: unknown) => {
      value = next;
    },
  });
}

/**
 * Returns `record` behind a Proxy that reports the names that are read, whether they exist or not,
 * and reads of all names.
 */
function observedRecord<T extends object>(record: T, onName: (name: string) => void, onAll: () => void): T {
  if (typeof record !== "object" || record === null) return record;
  const report = (target: object, property: string | symbol): void => {
    const isMethod = !Object.hasOwn(target, property) && property in Object.prototype;
    if (typeof property === "string" && !isMethod) onName(property);
  };
  return new Proxy(record, {
    get: (target, property) => {
      report(target, property);
      return Reflect.get(target, property) as unknown;
    },
    has: (target, property) => {
      report(target, property);
      return Reflect.has(target, property);
    },
    getOwnPropertyDescriptor: (target, property) => {
      report(target, property);
      return Reflect.getOwnPropertyDescriptor(target, property);
    },
    ownKeys: (target) => {
      onAll();
      return Reflect.ownKeys(target);
    },
  });
}
