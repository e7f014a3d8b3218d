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
import { coercedVariables } from "../../base/graphql-version.js";
import { getOrMake } from "../../base/multimap.js";
import type { ValueWriter } from "../../keys/canonical.js";

/**
 * Writes what queries select, as part of keys. Each selection set, and each fragment, is written once for an execution, with a
 * digest in the place of what is below it. What has no fragments is remembered for as long as its document.
 */
export class Selections {
  readonly #ofDocuments = new WeakMap<object, Outline>();
  /** By the fragments of an execution: which definition a name stands for can differ in another one that shares nodes. */
  readonly #ofExecutions = new WeakMap<object, Map<object, Outline>>();
  readonly #writeVariable: ValueWriter;
  readonly #hasArguments: boolean;

  /** `hasArguments`: whether the places of variables in the arguments of the fields themselves count. */
  constructor(writeVariable: ValueWriter, hasArguments = true) {
    this.#writeVariable = writeVariable;
    this.#hasArguments = hasArguments;
  }

  /**
   * Returns what the query selects below a field, and with which variables. The names of fragments do not matter.
   * Variables are written by name and value, since a resolver can read them by either.
   */
  textOf(info: QueryInfo): string {
    const { digest, variables } = this.outlineOf(info);
    const text = kindOf(info) + digest;
    if (variables.size === 0) return text;
    const values = coercedVariables(info.variableValues);
    const given = Array.from(variables, (name) => (Object.hasOwn(values, name) ? [name, values[name]] : [name]));
    return text + this.#writeVariable(given, 0);
  }

  outlineOf({ fieldNodes, fragments }: QueryInfo): Outline {
    // Without merged fields, the node is the longest-lived object: the array is made per execution.
    const owner = fieldNodes.length === 1 ? (fieldNodes[0] as FieldNode) : fieldNodes;
    return this.#outlineOf(owner, fragments, (draft) => {
      for (const node of fieldNodes) this.#addFieldNode(draft, node, fragments);
    });
  }

  #outlineOf(owner: object, fragments: QueryInfo["fragments"], write: (draft: Draft) => void): Outline {
    const lasting = this.#ofDocuments.get(owner);
    if (lasting !== undefined) return lasting;
    const ofExecution = getOrMake(this.#ofExecutions, fragments, () => new Map<object, Outline>());
    const known = ofExecution.get(owner);
    if (known !== undefined) return known;
    // A document that was not validated can have fragments that contain themselves.
    ofExecution.set(owner, { digest: String(ofExecution.size), variables: NONE, fragments: NONE });
    const draft = new Draft();
    write(draft);
    const outline = draft.outline();
    if (outline.fragments.size === 0) this.#ofDocuments.set(owner, outline);
    else ofExecution.set(owner, outline);
    return outline;
  }

  /** Writes a node of the field itself. The values of its arguments are in the key as far as that says; here are the places of variables in them. */
  #addFieldNode(draft: Draft, node: FieldNode, fragments: QueryInfo["fragments"]): void {
    const { arguments: args = [], directives = [], selectionSet } = node;
    const places = this.#hasArguments ? args.map(({ name, value }) => `${name.value}:${draft.placesIn(value)}`) : [];
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

/** The part of `info` that says what a query asks for. */
export type QueryInfo = Pick<GraphQLResolveInfo, "fieldNodes" | "fragments" | "operation" | "variableValues">;

/** A part of a query document, as far as it does not depend on the values of variables. */
export interface Outline {
  readonly digest: string;
  /** The variables in it. */
  readonly variables: ReadonlySet<string>;
  /** The names of the fragments in it. */
  readonly fragments: ReadonlySet<string>;
}

const NONE: ReadonlySet<string> = new Set();

const byText = (one: string, other: string): number => (one < other ? -1 : 1);

/** Not part of outlines, which operations of one document share. A worker has no operation. */
const kindOf = ({ operation }: QueryInfo): string =>
  operation === undefined || operation.operation === "query" ? "" : operation.operation;

/** Directives that decide whether a field is resolved at all: for a resolver that runs, they say nothing. */
const CONDITIONS: readonly string[] = ["skip", "include"];

/** An outline that is being written. */
class Draft {
  text = "";
  readonly variables = new Set<string>();
  readonly fragments = new Set<string>();

  outline(): Outline {
    const { text, variables, fragments } = this;
    return { digest: hash("sha256", text, "base64url"), variables, fragments };
  }

  add({ digest, variables, fragments }: Outline): void {
    this.text += `{${digest}}`;
    for (const name of variables) this.variables.add(name);
    for (const name of fragments) this.fragments.add(name);
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
