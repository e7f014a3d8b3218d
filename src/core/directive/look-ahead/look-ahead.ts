import type { FieldNode, GraphQLResolveInfo } from "graphql";
import { isPlainObject } from "../../base/built-in.js";
import { CachedError } from "../../base/errors.js";
import { infoWith, mapVariables } from "../../base/graphql-version.js";
import type { QueryUse } from "../../schema-rules.js";
import type { Excess } from "../../tier/request/loaded.js";
import { KeyedArguments, type Outlines, SelectedNames, variablesInArguments } from "./selection.js";

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
    observe(info) {
      const read = new Set<QueryPart>();
      let names: SelectedNames | undefined;
      const isSelected: IsSelected = (kind, name) => {
        try {
          // They say what an argument says, which the key leaves out and a load may read.
          names ??= new SelectedNames(outlines.of(info, keyed), isReference ? [] : variablesInArguments(info));
        } catch {
          // The query has no outline, and so no key.
          return false;
        }
        return names.has(kind, name);
      };
      return {
        info: observeQuery(info, field, (part) => read.add(part), isSelected),
        excess: () => excessOf(read, field),
      };
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

/** Whether the selection contains a variable or a fragment of a name. */
type IsSelected = (kind: "variables" | "fragments", name: string) => boolean;

/** Returns in what way a load that has read `read` depends on more than its key. */
function excessOf(read: ReadonlySet<QueryPart>, { coordinate, keyTexts }: LookAheadField): Excess | undefined {
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
  if (read.size === 0 || keyTexts.includes("$selection")) return undefined;
  const key = [...keyTexts, "$selection"].map((text) => JSON.stringify(text)).join(", ");
  return excess(
    "CACHED_SELECTION_READ",
    `the selection of the query, which its key does not contain; set key: [${key}], or let the resolver load without looking at the selection`,
  );
}

/** Returns which of the parts that a load has read no key contains. Undefined: none. */
function beyondSelection(read: ReadonlySet<QueryPart>): string | undefined {
  const unkeyable = [...read].find((part) => part.startsWith("info."));
  if (unkeyable !== undefined) return `\`${unkeyable}\``;
  // A load that takes all fragments and variable definitions of the document, but not the selection
  // of the operation, builds a document from its own field nodes, as `delegateToSchema` of
  // graphql-tools does. It also takes the operation's name and all variables, and sends only those
  // variables and fragments that the selection uses.
  if (read.has("allFragments") && read.has("definitions") && !read.has("operation")) return undefined;
  if (read.has("name")) return "`info.operation.name`";
  const hasMore = [...read].some((part) => part !== "selection");
  return hasMore ? "the query beyond the selection of its field (other fields, variables or fragments)" : undefined;
}

/**
 * Returns an `info` for one load that tells `onRead` what the load reads of the query, also after
 * an await and through a copy of `info`. Making such a copy is no read: the accessors that count
 * are on field nodes and on the operation, which are made for this load when it asks for them. Free
 * are `fieldName`, `path`, the types, the schema, and the name, alias and arguments of the field
 * nodes, unless these stand for references. Locations lead to the whole query.
 */
function observeQuery(
  info: GraphQLResolveInfo,
  { hasSelection, isReference }: LookAheadField,
  onRead: (part: QueryPart) => void,
  isSelected: IsSelected,
): GraphQLResolveInfo {
  const { fieldNodes, operation, fragments, variableValues, rootValue } = info;
  const reading = (part: QueryPart) => (): void => onRead(part);
  const named = (kind: "variables" | "fragments") => (name: string) =>
    onRead(isSelected(kind, name) ? "selection" : "rest");
  const fieldNode = (node: FieldNode): FieldNode => {
    const copy = { ...node };
    if (hasSelection) observe(copy, "selectionSet", reading("selection"));
    if (isReference) observe(copy, "arguments", reading("operation"));
    observe(copy, "directives", reading("selection"));
    observe(copy, "loc", reading("info.fieldNodes[].loc"), false);
    return copy;
  };
  const observed = infoWith(info, {});
  lazily(observed, {
    fieldNodes: () =>
      fieldNodes.length === 0 ? observedRecord<FieldNode[]>([], reading("selection")) : fieldNodes.map(fieldNode),
    operation: () => operationNode(operation, reading),
    fragments: () => observedRecord(fragments, named("fragments"), reading("allFragments")),
    variableValues: () =>
      mapVariables(variableValues, (values) => observedRecord(values, named("variables"), reading("rest"))),
  });
  // The root value is the server's own object, so only reading it at all can be observed. Servers
  // without one set it to undefined or to an empty object.
  if (!isEmptyRoot(rootValue)) observe(observed, "rootValue", reading("info.rootValue"));
  return observed;
}

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
