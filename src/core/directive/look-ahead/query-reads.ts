import type { FieldNode, GraphQLResolveInfo } from "graphql";
import { isPlainObject } from "../../base/built-in.js";
import { infoWith, mapVariables } from "../../base/graphql-version.js";
import type { Outline } from "./selection.js";

/** What one load has read of the query. */
export class QueryReads {
  readonly #read = new Set<QueryPart>();
  #unkeyable: string | undefined;
  readonly #outline: () => Outline | undefined;

  constructor(outline: () => Outline | undefined) {
    this.#outline = outline;
  }

  /** Whether it has read something that follows from the selection of its field, or more. */
  get hasSelection(): boolean {
    return this.#read.size > 0;
  }

  /** What the load has read that no key contains. Undefined: nothing. */
  get beyondSelection(): string | undefined {
    if (this.#unkeyable !== undefined || this.#delegates) return this.#unkeyable;
    if (this.#read.has("name")) return "`info.operation.name`";
    const hasMore = (["operation", "rest", "definitions", "allFragments"] as const).some((part) =>
      this.#read.has(part),
    );
    return hasMore ? "the query beyond the selection of its field (other fields, variables or fragments)" : undefined;
  }

  /**
   * A load that takes all fragments and variable definitions of the document, but not the selection of the operation,
   * builds a document from its own field nodes, as `delegateToSchema` of graphql-tools does. It also takes the
   * operation's name and all variables, and sends only those variables and fragments that the selection uses.
   */
  get #delegates(): boolean {
    return this.#read.has("allFragments") && this.#read.has("definitions") && !this.#read.has("operation");
  }

  add(part: QueryPart): void {
    this.#read.add(part);
  }

  /** Records that a variable or a fragment was read, by its name. */
  addNamed(kind: "variables" | "fragments", name: string): void {
    this.#read.add(this.#outline()?.contains(kind, name) === true ? "selection" : "rest");
  }

  /** Records that something was read that no key contains. */
  addUnkeyable(path: string): void {
    this.#unkeyable ??= `\`${path}\``;
  }
}

/** A part of the query. `rest`: variables or fragments that the selection does not contain. */
type QueryPart = "selection" | "operation" | "rest" | "name" | "definitions" | "allFragments";

/**
 * Returns an `info` for one load that records in `reads` what the load reads of the query, also after an await and
 * through a copy of `info`. Making such a copy is no read: the accessors that count are on field nodes and on the operation,
 * which are made for this load when it asks for them. Free are `fieldName`, `path`, the types, the schema, and the name, alias and
 * arguments of the field nodes. The location of a node leads to the text of the whole query.
 *
 * `hasSelection`: whether the field returns a type with fields. For others, the selection is always empty, and
 * reading it is free too. `hasKeyedArguments`: whether the arguments of the field nodes are those of the load. Those
 * of `_entities` are not: they have all representations.
 */
export function observeQuery(
  info: GraphQLResolveInfo,
  reads: QueryReads,
  field: { readonly hasSelection: boolean; readonly hasKeyedArguments: boolean },
): GraphQLResolveInfo {
  const { fieldNodes, operation, fragments, variableValues, rootValue } = info;
  const observed = infoWith(info, {});
  lazily(observed, {
    fieldNodes: () =>
      fieldNodes.length === 0
        ? observedRecord<FieldNode[]>([], () => reads.add("selection"))
        : fieldNodes.map((node) => fieldNode(node, reads, field)),
    operation: () => operationNode(operation, reads),
    fragments: () =>
      observedRecord(
        fragments,
        (name) => reads.addNamed("fragments", name),
        () => reads.add("allFragments"),
      ),
    variableValues: () =>
      mapVariables(variableValues, (values) =>
        observedRecord(
          values,
          (name) => reads.addNamed("variables", name),
          () => reads.add("rest"),
        ),
      ),
  });
  // The root value is the server's own object, so only reading it at all can be observed. Servers
  // without one set it to undefined or to an empty object.
  if (!isEmptyRoot(rootValue)) observe(observed, "rootValue", () => reads.addUnkeyable("info.rootValue"));
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
  if (hasSelection) observe(copy, "selectionSet", () => reads.add("selection"));
  if (!hasKeyedArguments) observe(copy, "arguments", () => reads.add("operation"));
  observe(copy, "directives", () => reads.add("selection"));
  observe(copy, "loc", () => reads.addUnkeyable("info.fieldNodes[].loc"), false);
  return copy;
}

function operationNode(
  operation: GraphQLResolveInfo["operation"] | undefined,
  reads: QueryReads,
): typeof operation & object {
  // A worker has no query, so every read of it counts.
  if (operation === undefined) return observedRecord({}, () => reads.add("operation")) as never;
  const copy = { ...operation };
  observe(copy, "name", () => reads.add("name"));
  observe(copy, "operation", () => reads.add("selection"));
  observe(copy, "selectionSet", () => reads.add("operation"));
  observe(copy, "directives", () => reads.add("operation"));
  observe(copy, "variableDefinitions", () => reads.add("definitions"));
  observe(copy, "loc", () => reads.addUnkeyable("info.operation.loc"), false);
  return copy;
}

function lazily(info: object, makers: Readonly<Record<string, () => unknown>>): void {
  for (const [property, make] of Object.entries(makers)) {
    // Not in the place of the accessor: the resolver may have frozen `info`.
    let made: { readonly value: unknown } | undefined;
    Object.defineProperty(info, property, {
      get: () => {
        made ??= { value: make() };
        return made.value;
      },
      set: (value: unknown) => {
        made = { value };
      },
      enumerable: true,
      configurable: true,
    });
  }
}

/** Replaces a property of `target` by an accessor that reports reads. A copy goes without one that is not `enumerable`. */
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

function observedRecord<T extends object>(
  record: T,
  onName: (name: string) => void,
  onAll: () => void = onName as () => void,
): T {
  if (typeof record !== "object" || record === null) return record;
  const report = (property: PropertyKey): void => {
    const isMethod = !Object.hasOwn(record, property) && property in Object.prototype;
    if (typeof property === "string" && !isMethod) onName(property);
  };
  return reportingReads(record, report, onAll);
}

/** Returns an object behind a Proxy that reports the names that are read, whether they exist or not, and reads of all names. */
const reportingReads = <T extends object>(target: T, onName: (property: PropertyKey) => void, onAll: () => void): T =>
  new Proxy(target, {
    get(_target, property) {
      onName(property);
      return Reflect.get(target, property) as unknown;
    },
    has(_target, property) {
      onName(property);
      return Reflect.has(target, property);
    },
    getOwnPropertyDescriptor(_target, property) {
      onName(property);
      return Reflect.getOwnPropertyDescriptor(target, property);
    },
    ownKeys() {
      onAll();
      return Reflect.ownKeys(target);
    },
    set: (_target, property, value) => Reflect.set(target, property, value),
  });
