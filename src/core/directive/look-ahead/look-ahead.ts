import type { FieldNode, GraphQLResolveInfo } from "graphql";
import { attempt, isPlainObject } from "../../base/built-in.js";
import { CachedError } from "../../base/errors.js";
import { mapVariables } from "../../base/graphql-version.js";
import type { ObservedLoad, QueryUse } from "../../schema-rules.js";
import type { Excess } from "../../tier/request/loaded.js";
import { KeyedArguments, type Outlines, type QueryInfo, SelectedNames, variablesInArguments } from "./selection.js";

/** Returns what a field has of the query: its selection in keys, and what its loads read. */
export function lookAhead(field: LookAheadField, outlines: Outlines): QueryUse {
  const { coordinate, isReference, argumentPaths } = field;
  const keyed = argumentPaths && new KeyedArguments(argumentPaths);
  return {
    selectionText(info) {
      try {
        return outlines.textOf(info, keyed);
      } catch (cause) {
        if (!(cause instanceof CachedError)) throw cause;
        throw new CachedError(cause.code, `\`${coordinate}\` is not cached: ${cause.message}`, { coordinate });
      }
    },
    observe(info, own) {
      // Variables say what an argument says, which the key leaves out and a load may read.
      const namesIn = (query: QueryInfo) =>
        new SelectedNames(outlines.of(query, keyed), isReference ? [] : variablesInArguments(query));
      return new ObservedQuery(info, own, field, namesIn);
    },
  };
}

interface LookAheadField {
  readonly coordinate: string;
  /** Whether its type has fields. Otherwise the selection is always empty, and may be read. */
  readonly hasSelection: boolean;
  readonly keyTexts: readonly string[];
  /** The paths in the key to arguments of the field itself. Undefined: it contains all of them. */
  readonly argumentPaths: readonly (readonly string[])[] | undefined;
  /** Whether it stands for references, whose query has all representations as an argument. */
  readonly isReference: boolean;
}

/** `rest`: variables and fragments that the selection lacks. A path of `info`: in no key. */
type QueryPart = "selection" | "operation" | "rest" | "name" | "definitions" | "allFragments" | `info.${string}`;

/** Returns in what way a load that has read `read` depends on more than its key. */
function excessOf(read: readonly QueryPart[], { coordinate, keyTexts }: LookAheadField): Excess | undefined {
  const excess = (code: "CACHED_SELECTION_READ" | "CACHED_QUERY_READ", what: string): Excess => ({
    kind: "unkeyable",
    error: new CachedError(
      code,
      `\`${coordinate}\`: the value is not cached: expected a load that depends on its key, got one that reads ${what}`,
      { coordinate },
    ),
  });
  const beyond = beyondSelection(read);
  if (beyond !== undefined)
    return excess(
      "CACHED_QUERY_READ",
      `${beyond}, which no key contains; pass what it needs as an argument, or move the read to a part of the server that is not cached`,
    );
  if (read.length === 0 || keyTexts.includes("$selection")) return undefined;
  const key = [...keyTexts, "$selection"].map((text) => JSON.stringify(text)).join(", ");
  return excess(
    "CACHED_SELECTION_READ",
    `the selection of the query, which its key does not contain; set key: [${key}], or let the resolver load without looking at the selection`,
  );
}

/** Returns which of the parts that a load has read no key contains. Undefined: none. */
function beyondSelection(read: readonly QueryPart[]): string | undefined {
  const unkeyable = read.find((part) => part.startsWith("info."));
  if (unkeyable !== undefined) return `\`${unkeyable}\``;
  // A load that takes all fragments and variable definitions of the document, but not the selection
  // of the operation, builds a document from its own field nodes, as `delegateToSchema` of
  // graphql-tools does. It also takes the operation's name and all variables, and sends only those
  // variables and fragments that the selection uses.
  if (read.includes("allFragments") && read.includes("definitions") && !read.includes("operation")) return undefined;
  if (read.includes("name")) return "`info.operation.name`";
  const hasMore = read.some((part) => part !== "selection");
  return hasMore ? "the query beyond the selection of its field (other fields, variables or fragments)" : undefined;
}

/**
 * What one load reads of the query, also after an await and through a copy of its `info`. Making
 * such a copy is no read: the accessors that count are on field nodes and on the operation, which
 * are made for this load when it asks for them. Free are `fieldName`, `path`, the types, the
 * schema, and the name, alias and arguments of the field nodes, unless these stand for references.
 * Locations lead to the whole query.
 */
class ObservedQuery implements ObservedLoad {
  readonly info: GraphQLResolveInfo;
  readonly #query: QueryInfo;
  /** Not in the place of the accessors: the resolver may have frozen `info`. */
  readonly parts: Partial<Record<LazyPart, unknown>> = {};
  readonly #read: QueryPart[] = [];
  #selected: SelectedNames | undefined;

  /** `own`: what the `info` of the load has besides, or instead. */
  constructor(
    given: GraphQLResolveInfo,
    own: object,
    private readonly field: LookAheadField,
    private readonly namesIn: (query: QueryInfo) => SelectedNames,
  ) {
    const { fieldNodes, operation, fragments, variableValues, ...others } = given;
    this.#query = { fieldNodes, operation, fragments, variableValues };
    // Grafast has most of an `info` in its prototype.
    const prototype = Object.getPrototypeOf(given) as object;
    const info: object = Object.assign(Object.create(prototype) as object, others, own, { [QUERY]: this });
    this.info = Object.defineProperties(info, LAZY) as GraphQLResolveInfo;
    // The root value is the server's own object, so only reading it at all can be observed. Servers
    // without one set it to undefined or to an empty object.
    if (!isEmptyRoot(given.rootValue)) observe(info, "rootValue", this.#reading("info.rootValue"));
  }

  excess(): Excess | undefined {
    return excessOf(this.#read, this.field);
  }

  make(part: LazyPart): unknown {
    const { fieldNodes, operation, fragments, variableValues } = this.#query;
    const named = (kind: "variables" | "fragments") => (name: string) =>
      this.#note(this.#isSelected(kind, name) ? "selection" : "rest");
    switch (part) {
      case "fieldNodes":
        if (fieldNodes.length === 0) return observedRecord<FieldNode[]>([], this.#reading("selection"));
        return fieldNodes.map((node) => this.#fieldNode(node));
      case "operation":
        return operationNode(operation, (read) => this.#reading(read));
      case "fragments":
        return observedRecord(fragments, named("fragments"), this.#reading("allFragments"));
      case "variableValues":
        return mapVariables(variableValues, (values) =>
          observedRecord(values, named("variables"), this.#reading("rest")),
        );
    }
  }

  #fieldNode(node: FieldNode): FieldNode {
    const { hasSelection, isReference } = this.field;
    const copy = { ...node };
    if (hasSelection) observe(copy, "selectionSet", this.#reading("selection"));
    if (isReference) observe(copy, "arguments", this.#reading("operation"));
    observe(copy, "directives", this.#reading("selection"));
    observe(copy, "loc", this.#reading("info.fieldNodes[].loc"), false);
    return copy;
  }

  #note(part: QueryPart): void {
    if (!this.#read.includes(part)) this.#read.push(part);
  }

  #reading(part: QueryPart): () => void {
    return () => this.#note(part);
  }

  /** Whether the selection contains a variable or a fragment. That of a query without key: no. */
  #isSelected(kind: "variables" | "fragments", name: string): boolean {
    this.#selected ??= attempt(() => this.namesIn(this.#query));
    return this.#selected?.has(kind, name) === true;
  }
}

type LazyPart = "fieldNodes" | "operation" | "fragments" | "variableValues";

/** Leads from the `info` of a load, and from what inherits from it, to what was made for it. */
const QUERY: unique symbol = Symbol("graphql-cached.query");

/** The same for all loads: V8 makes a hidden class for each accessor that is different. */
const LAZY: PropertyDescriptorMap = {};
for (const part of ["fieldNodes", "operation", "fragments", "variableValues"] as const)
  LAZY[part] = {
    get(this: { readonly [QUERY]: ObservedQuery }) {
      const { [QUERY]: query } = this;
      if (!Object.hasOwn(query.parts, part)) query.parts[part] = query.make(part);
      return query.parts[part];
    },
    set(this: { readonly [QUERY]: ObservedQuery }, value: unknown) {
      this[QUERY].parts[part] = value;
    },
    enumerable: true,
    configurable: true,
  };

/** Whether a root value has nothing that fields could be resolved from. */
export const isEmptyRoot = (rootValue: unknown): boolean =>
  rootValue === undefined || rootValue === null || (isPlainObject(rootValue) && Object.keys(rootValue).length === 0);

function operationNode(
  operation: GraphQLResolveInfo["operation"] | undefined,
  reading: (part: QueryPart) => () => void,
): typeof operation & object {
  // A worker has no query, so every read of it counts.
  if (operation === undefined) return observedRecord({}, reading("operation")) as never;
  const copy = { ...operation };
  observe(copy, "name", reading("name"));
  observe(copy, "operation", reading("selection"));
  observe(copy, "selectionSet", reading("operation"));
  observe(copy, "directives", reading("operation"));
  observe(copy, "variableDefinitions", reading("definitions"));
  observe(copy, "loc", reading("info.operation.loc"), false);
  return copy;
}

/** Makes a property of `target` an accessor that reports reads; copies skip non-enumerable ones. */
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

/** Returns a Proxy that reports the names that are read, whether they exist or not. */
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
  return new Proxy(record, {
    get(_record, property) {
      report(property);
      return Reflect.get(record, property) as unknown;
    },
    has(_record, property) {
      report(property);
      return Reflect.has(record, property);
    },
    getOwnPropertyDescriptor(_record, property) {
      report(property);
      return Reflect.getOwnPropertyDescriptor(record, property);
    },
    ownKeys() {
      onAll();
      return Reflect.ownKeys(record);
    },
    set: (_record, property, value) => Reflect.set(record, property, value),
  });
}
