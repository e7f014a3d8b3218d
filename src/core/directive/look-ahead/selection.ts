import { hash } from "node:crypto";
import {
  type ArgumentNode,
  type DirectiveNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLResolveInfo,
  print,
  type SelectionSetNode,
  type ValueNode,
} from "graphql";
import { CachedError } from "../../base/errors.js";
import { coercedVariables } from "../../base/graphql-version.js";
import { getOrMake } from "../../base/multimap.js";
import type { ValueWriter } from "../../keys/canonical.js";

/**
 * Writes what queries select below cached fields, as a part of their keys. The work is a sum: each
 * node, selection set and fragment is written once for an execution, and so is each variable,
 * however many fields ask for it. (P13)
 *
 * An outline refers to those of what is below it instead of repeating them. What has no fragments
 * is remembered for as long as its document.
 */
export class Outlines {
  readonly #ofDocuments = new WeakMap<object, Outline>();
  /** By fragments, whose names other executions can use. Null: being written, or cannot be. */
  readonly #ofExecutions = new WeakMap<object, Map<object, Outline | null>>();
  /** Merged nodes by the first: graphql 17 makes another array for each object of a list. */
  readonly #merged = new WeakMap<FieldNode, QueryInfo["fieldNodes"]>();
  readonly #values = new WeakMap<object, VariableTexts>();
  #depth = 0;

  constructor(private readonly writeVariable: ValueWriter) {}

  /**
   * Returns what the query selects below a field, and with which variables. The names of fragments
   * do not matter. Variables are written by name and value, since a resolver can read them by
   * either. `keyed`: the arguments of the field itself in which variables count. Default: all.
   * Throws `CACHED_KEY_UNUSABLE` for what no valid query selects, and `CACHED_KEY_UNSERIALIZABLE`.
   */
  textOf(info: QueryInfo, keyed?: KeyedArguments): string {
    const { operation, variableValues } = info;
    const outline = this.of(info, keyed);
    // Not part of outlines, which operations of one document share. A worker has no operation.
    const kind = operation === undefined || operation.operation === "query" ? "" : operation.operation;
    if (!outline.hasVariables) return kind + outline.digest;
    const texts = getOrMake(this.#values, variableValues, () => new VariableTexts(this.writeVariable));
    return kind + outline.digest + texts.of(outline, coercedVariables(variableValues));
  }

  of({ fieldNodes, fragments }: QueryInfo, keyed?: KeyedArguments): Outline {
    const [first] = fieldNodes as readonly [FieldNode];
    // Without merged fields, the node is the longest-lived object: the array is made per execution.
    const nodes = fieldNodes.length === 1 ? first : this.#sameNodes(first, fieldNodes);
    return this.#outlineOf(keyed?.ownerOf(nodes) ?? nodes, fragments, (draft) => {
      for (const node of fieldNodes) this.#addField(draft, node, fragments, keyed);
    });
  }

  #sameNodes(first: FieldNode, fieldNodes: QueryInfo["fieldNodes"]): QueryInfo["fieldNodes"] {
    const known = this.#merged.get(first);
    if (known === fieldNodes) return known;
    if (known?.length === fieldNodes.length && known.every((node, nth) => node === fieldNodes[nth])) return known;
    this.#merged.set(first, fieldNodes);
    return fieldNodes;
  }

  #outlineOf(owner: object, fragments: QueryInfo["fragments"], write: (draft: Draft) => void): Outline {
    const lasting = this.#ofDocuments.get(owner);
    if (lasting !== undefined) return lasting;
    const ofExecution = getOrMake(this.#ofExecutions, fragments, () => new Map<object, Outline | null>());
    const known = ofExecution.get(owner);
    if (known !== undefined && known !== null) return known;
    // Fragments can contain themselves before validation. What fails once is not tried again.
    if (known === null || this.#depth >= MAX_DEPTH) throw unusable();
    ofExecution.set(owner, null);
    const draft = new Draft();
    this.#depth++;
    try {
      write(draft);
    } finally {
      this.#depth--;
    }
    const outline = new Outline(draft);
    if (outline.hasFragments) ofExecution.set(owner, outline);
    else {
      ofExecution.delete(owner);
      this.#ofDocuments.set(owner, outline);
    }
    return outline;
  }

  /** Writes a node of the field itself: the key has its arguments, but for variables in them. */
  #addField(draft: Draft, node: FieldNode, fragments: QueryInfo["fragments"], keyed: KeyedArguments | undefined): void {
    const { arguments: args = [], directives = [], selectionSet } = node;
    const places = args.flatMap(({ name, value }) => {
      const place = keyed === undefined ? draft.placesIn(value) : keyed.placesIn(value, [name.value], draft);
      return place === undefined ? [] : `${name.value}:${place}`;
    });
    const own = directives.filter(({ name }) => !CONDITIONS.includes(name.value));
    draft.text += `(${places.sort(byText).join()})${draft.directives(own)}`;
    this.#addSet(draft, selectionSet, fragments);
    draft.text += " ";
  }

  #addSet(draft: Draft, set: SelectionSetNode | undefined, fragments: QueryInfo["fragments"]): void {
    if (set === undefined) return;
    draft.add(this.#outlineOf(set, fragments, (inner) => this.#writeSet(inner, set, fragments)));
  }

  #writeSet(draft: Draft, { selections }: SelectionSetNode, fragments: QueryInfo["fragments"]): void {
    for (const selection of selections) {
      if (selection.kind === "Field") {
        const { name, alias, arguments: args, directives, selectionSet } = selection;
        const label = alias === undefined ? name.value : `${alias.value}:${name.value}`;
        draft.text += label + draft.arguments(args) + draft.directives(directives);
        this.#addSet(draft, selectionSet, fragments);
      } else if (selection.kind === "InlineFragment") {
        draft.text += `... on ${selection.typeCondition?.name.value ?? ""}${draft.directives(selection.directives)}`;
        this.#addSet(draft, selection.selectionSet, fragments);
      } else {
        // Those of a fragment, which graphql 17 parses as an experiment.
        const { arguments: args } = selection as object as { readonly arguments?: readonly ArgumentNode[] };
        const name = selection.name.value;
        draft.fragments.add(name);
        draft.text += `...${draft.arguments(args)}${draft.directives(selection.directives)}`;
        const definition = fragments[name];
        if (definition !== undefined)
          draft.add(
            this.#outlineOf(definition, fragments, (inner) => this.#writeFragment(inner, definition, fragments)),
          );
      }
      draft.text += " ";
    }
  }

  #writeFragment(draft: Draft, definition: FragmentDefinitionNode, fragments: QueryInfo["fragments"]): void {
    const { typeCondition, directives, variableDefinitions = [], selectionSet } = definition;
    draft.text += ` on ${typeCondition.name.value}${draft.directives(directives)}`;
    draft.text += variableDefinitions.map((node) => print(node)).join();
    this.#addSet(draft, selectionSet, fragments);
  }
}

/** The arguments of a field that its key contains, where it does not contain all of them. */
export class KeyedArguments {
  /** By nodes, which have an outline for each field that asks: the object that stands for them. */
  readonly #owners = new WeakMap<object, object>();

  constructor(private readonly paths: readonly (readonly string[])[]) {}

  ownerOf(nodes: object): object {
    return getOrMake(this.#owners, nodes, () => ({}));
  }

  /** Returns the places of variables in a value. Undefined: the key does not contain it. */
  placesIn(value: ValueNode, at: readonly string[], draft: Draft): string | undefined {
    if (this.paths.some((steps) => steps.every((step, nth) => step === at[nth]))) return draft.placesIn(value);
    if (value.kind !== "ObjectValue") return undefined;
    const places = value.fields.flatMap((field) => {
      const place = this.placesIn(field.value, [...at, field.name.value], draft);
      return place === undefined ? [] : `${field.name.value}:${place}`;
    });
    return places.length === 0 ? undefined : `{${places.join()}}`;
  }
}

export function variablesInArguments({ fieldNodes: [node] }: Pick<QueryInfo, "fieldNodes">): ReadonlySet<string> {
  const draft = new Draft();
  for (const { value } of node?.arguments ?? []) draft.placesIn(value);
  return draft.variables;
}

export type QueryInfo = Pick<GraphQLResolveInfo, "fieldNodes" | "fragments" | "operation" | "variableValues">;

/** A query that nests fields and fragments deeper has no key: it is an attack, or circular. */
const MAX_DEPTH = 500;

const unusable = (): CachedError =>
  new CachedError(
    "CACHED_KEY_UNUSABLE",
    `expected the selection of a valid query, of at most ${MAX_DEPTH} fields and fragments inside each other, got more, or a fragment that contains itself; validate queries, and limit their depth`,
  );

/**
 * A part of a query document, as far as it does not depend on the values of variables. There is one
 * for each selection set of every document that a server keeps, so it has no collections of its own
 * unless there is something in them.
 */
export class Outline {
  readonly digest: string;
  readonly hasVariables: boolean;
  readonly hasFragments: boolean;
  /** The variables and fragments that it contains itself. */
  readonly variables: ReadonlySet<string>;
  readonly fragments: ReadonlySet<string>;
  readonly parts: readonly Outline[];

  constructor({ text, variables, fragments, parts }: Draft) {
    this.digest = digestOf(text);
    this.variables = variables.size === 0 ? NO_NAMES : variables;
    this.fragments = fragments.size === 0 ? NO_NAMES : fragments;
    this.parts = parts.size === 0 ? NO_PARTS : [...parts];
    this.hasVariables = variables.size > 0 || this.parts.some((part) => part.hasVariables);
    this.hasFragments = fragments.size > 0 || this.parts.some((part) => part.hasFragments);
  }
}

/** The names in a selection, for one load. Visits each part once, and no more than needed. (P13) */
export class SelectedNames {
  readonly variables: Set<string>;
  readonly fragments = new Set<string>();
  readonly #outlines: Set<Outline>;
  /** A set is also iterated over what is added meanwhile. */
  readonly #others: Iterator<Outline>;

  /** `variables`: those that count as well. */
  constructor(outline: Outline, variables: Iterable<string> = []) {
    this.variables = new Set(variables);
    this.#outlines = new Set([outline]);
    this.#others = this.#outlines.values();
  }

  has(kind: "variables" | "fragments", name: string): boolean {
    while (!this[kind].has(name)) {
      const { done, value: outline } = this.#others.next();
      if (done === true) return false;
      for (const one of outline.variables) this.variables.add(one);
      for (const one of outline.fragments) this.fragments.add(one);
      for (const part of outline.parts) this.#outlines.add(part);
    }
    return true;
  }
}

const NO_NAMES: ReadonlySet<string> = new Set();
const NO_PARTS: readonly Outline[] = [];

type Values = Readonly<Record<string, unknown>>;

class VariableTexts {
  readonly #ofVariables = new Map<string, string>();
  /** Returns the text, or throws why there is none: those who need it are told at once. */
  readonly #ofOutlines = new Map<Outline, () => string>();

  constructor(private readonly write: ValueWriter) {}

  /** The values are not kept, since they are what it is found by: see `StateOf`. */
  of(outline: Outline, values: Values): string {
    return getOrMake(this.#ofOutlines, outline, () => this.#attempt(outline, values))();
  }

  #attempt(outline: Outline, values: Values): () => string {
    try {
      const text = this.#writeOutline(outline, values);
      return () => text;
    } catch (error) {
      return () => {
        throw error;
      };
    }
  }

  /** Which outline it is of says which texts these are. */
  #writeOutline({ variables, parts }: Outline, values: Values): string {
    // Fragments of two names can be the same.
    const different = new Map(parts.map((part) => [part.digest, part]));
    const texts = [
      ...[...variables]
        .sort(byText)
        .map((name) => getOrMake(this.#ofVariables, name, () => this.#textOf(name, values))),
      ...[...different.values()].flatMap((part) => (part.hasVariables ? [this.of(part, values)] : [])),
    ];
    return texts.length === 1 ? (texts[0] as string) : digestOf(JSON.stringify(texts));
  }

  #textOf(name: string, values: Values): string {
    const text = this.write(Object.hasOwn(values, name) ? [name, values[name]] : [name], 0);
    return text.length > MAX_VARIABLE_LENGTH ? digestOf(text) : text;
  }
}

/** A longer text of a variable is not repeated in keys. */
const MAX_VARIABLE_LENGTH = 100;

const digestOf = (text: string): string => hash("sha256", text, "base64url");

const byText = (one: string, other: string): number => (one < other ? -1 : 1);

/** They decide whether a field is resolved at all, and say nothing to a resolver that runs. */
const CONDITIONS: readonly string[] = ["skip", "include"];

class Draft {
  text = "";
  readonly variables = new Set<string>();
  readonly fragments = new Set<string>();
  readonly parts = new Set<Outline>();

  add(part: Outline): void {
    this.text += `{${part.digest}}`;
    if (part.hasVariables || part.hasFragments) this.parts.add(part);
  }

  directives(directives: readonly DirectiveNode[] = []): string {
    return directives.map(({ name, arguments: args }) => `@${name.value}${this.arguments(args)}`).join("");
  }

  /** The order of arguments does not matter, since the schema fixes them. */
  arguments(args: readonly ArgumentNode[] = []): string {
    if (args.length === 0) return "";
    for (const { value } of args) this.placesIn(value);
    return `(${args
      .map((arg) => print(arg))
      .sort(byText)
      .join()})`;
  }

  placesIn(value: ValueNode): string {
    switch (value.kind) {
      case "Variable":
        this.variables.add(value.name.value);
        return `$${value.name.value}`;
      case "ListValue":
        return `[${value.values.map((member) => this.placesIn(member)).join()}]`;
      case "ObjectValue":
        return `{${value.fields.map((field) => `${field.name.value}:${this.placesIn(field.value)}`).join()}}`;
      default:
        return "";
    }
  }
}
