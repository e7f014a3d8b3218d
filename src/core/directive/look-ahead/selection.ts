import { hash } from "node:crypto";
import {
  type ArgumentNode,
  type DirectiveNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type FragmentSpreadNode,
  type GraphQLResolveInfo,
  type InlineFragmentNode,
  type OperationDefinitionNode,
  print,
  type SelectionSetNode,
  type ValueNode,
} from "graphql";
import { coercedVariables } from "../../base/graphql-version.js";
import type { ValueWriter } from "../../keys/canonical.js";

/** Writes what queries select, as part of keys. Outlines are memoized per node, so that a server that caches documents makes each once. */
export class Selections {
  readonly #ofFields = new WeakMap<object, Outline>();
  readonly #ofOperations = new WeakMap<OperationDefinitionNode, Outline>();
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
    return kindOf(info) + textOf(this.outlineOf(info), info, this.#writeVariable);
  }

  /** Returns what the whole operation asks for, without its name. */
  operationTextOf(info: QueryInfo): string {
    const { operation, fragments } = info;
    let outline = this.#ofOperations.get(operation);
    if (outline?.fragments.size !== Object.keys(fragments).length || !hasSameFragments(outline, fragments)) {
      const { name: _name, loc: _loc, ...unnamed } = operation;
      const used = new Map(Object.entries(fragments).sort(([a], [b]) => byText(a, b)));
      const text = [unnamed, ...used.values()].map((node) => print(node)).join("\n");
      const variables = new Set((operation.variableDefinitions ?? []).map(({ variable }) => variable.name.value));
      outline = { digest: digestOf(text), variables, fragments: used };
      this.#ofOperations.set(operation, outline);
    }
    return textOf(outline, info, this.#writeVariable);
  }

  outlineOf({ fieldNodes, fragments }: QueryInfo): Outline {
    // Without merged fields, the node is the longest-lived object: the array is made per execution.
    const owner = fieldNodes.length === 1 ? (fieldNodes[0] as FieldNode) : fieldNodes;
    const known = this.#ofFields.get(owner);
    // A document that was transformed can share nodes with another that has other fragments.
    if (known !== undefined && hasSameFragments(known, fragments)) return known;
    const writer = new OutlineWriter(fragments);
    for (const node of fieldNodes) writer.addFieldNode(node, this.#hasArguments);
    const outline = { digest: digestOf(writer.text), variables: writer.variables, fragments: writer.used };
    this.#ofFields.set(owner, outline);
    return outline;
  }
}

/** The part of `info` that says what a query asks for. */
export type QueryInfo = Pick<GraphQLResolveInfo, "fieldNodes" | "fragments" | "operation" | "variableValues">;

/** A part of a query document, as far as it does not depend on the values of variables. */
export interface Outline {
  readonly digest: string;
  /** The variables in it, in the order of their first use. */
  readonly variables: ReadonlySet<string>;
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode | undefined>;
}

const byText = (one: string, other: string): number => (one < other ? -1 : 1);

const digestOf = (text: string): string => hash("sha256", text, "base64url");

const hasSameFragments = (outline: Outline, fragments: QueryInfo["fragments"]): boolean =>
  [...outline.fragments].every(([name, definition]) => fragments[name] === definition);

/** Not part of outlines, which operations of one document share. A worker has no operation. */
const kindOf = ({ operation }: QueryInfo): string =>
  operation === undefined || operation.operation === "query" ? "" : operation.operation;

function textOf({ digest, variables }: Outline, { variableValues }: QueryInfo, write: ValueWriter): string {
  if (variables.size === 0) return digest;
  const values = coercedVariables(variableValues);
  const given = Array.from(variables, (name) => (Object.hasOwn(values, name) ? [name, values[name]] : [name]));
  return digest + write(given, 0);
}

/** Directives that decide whether a field is resolved at all: for a resolver that runs, they say nothing. */
export const CONDITIONS: readonly string[] = ["skip", "include"];

/**
 * Writes an outline. A named fragment is written where it is first spread, as an inline fragment would be. Where it
 * is spread again, its number follows. Numbers count all fragments in the order in which they begin in the text,
 * inline ones included. The text is therefore no longer than the document, and stands for one selection only,
 * although fragments that spread others repeatedly can stand for exponentially many fields.
 */
class OutlineWriter {
  readonly variables = new Set<string>();
  readonly used = new Map<string, FragmentDefinitionNode | undefined>();
  /** Grows by concatenation: joining the parts of each level would copy the innermost ones once per level. */
  text = "";
  readonly #fragments: QueryInfo["fragments"];
  readonly #numbers = new Map<string, number>();
  #fragmentCount = 0;

  constructor(fragments: QueryInfo["fragments"]) {
    this.#fragments = fragments;
  }

  /** Writes a node of the field itself. The values of its arguments are in the key as far as that says; here are the places of variables in them. */
  addFieldNode({ arguments: args = [], directives = [], selectionSet }: FieldNode, hasArguments: boolean): void {
    const places = hasArguments ? args.map(({ name, value }) => `${name.value}:${this.#placesIn(value)}`) : [];
    const own = directives.filter(({ name }) => !CONDITIONS.includes(name.value));
    this.text += `(${places.sort(byText).join()})${this.#directives(own)}`;
    this.#addSelectionSet(selectionSet);
    this.text += " ";
  }

  #addSelectionSet(set: SelectionSetNode | undefined): void {
    if (set === undefined) return;
    this.text += "{";
    for (const selection of set.selections) {
      if (selection.kind === "Field") {
        const { name, alias, arguments: args, directives, selectionSet } = selection;
        const label = alias === undefined ? name.value : `${alias.value}:${name.value}`;
        this.text += label + this.#arguments(args) + this.#directives(directives);
        this.#addSelectionSet(selectionSet);
      } else if (selection.kind === "InlineFragment") {
        this.#addFragment(selection, this.#directives(selection.directives));
      } else {
        this.#addSpread(selection);
      }
      this.text += " ";
    }
    this.text += "}";
  }

  #addSpread(spread: FragmentSpreadNode): void {
    const name = spread.name.value;
    // Those of a fragment, which graphql 17 parses as an experiment.
    const { arguments: args } = spread as object as { readonly arguments?: readonly ArgumentNode[] };
    const given = this.#arguments(args) + this.#directives(spread.directives);
    const definition = this.#fragments[name];
    const number = this.#numbers.get(name);
    this.used.set(name, definition);
    if (definition === undefined || number !== undefined) {
      this.text += `...${number ?? ""}${given}`;
      return;
    }
    // Before its selections, since a document that was not validated can have cycles.
    this.#numbers.set(name, this.#fragmentCount);
    const { directives, variableDefinitions = [] } = definition;
    const own = this.#directives(directives) + variableDefinitions.map((node) => print(node)).join();
    this.#addFragment(definition, own === "" ? given : `${given}:${own}`);
  }

  #addFragment({ typeCondition, selectionSet }: InlineFragmentNode | FragmentDefinitionNode, details: string): void {
    this.#fragmentCount++;
    this.text += `... on ${typeCondition?.name.value ?? ""}${details}`;
    this.#addSelectionSet(selectionSet);
  }

  #directives(directives: readonly DirectiveNode[] = []): string {
    return directives.map(({ name, arguments: args }) => `@${name.value}${this.#arguments(args)}`).join("");
  }

  /** The order of arguments does not matter, since the schema fixes them. */
  #arguments(args: readonly ArgumentNode[] = []): string {
    if (args.length === 0) return "";
    for (const { value } of args) this.#placesIn(value);
    return `(${args
      .map((arg) => print(arg))
      .sort(byText)
      .join()})`;
  }

  #placesIn(value: ValueNode): string {
    switch (value.kind) {
      case "Variable":
        this.variables.add(value.name.value);
        return `$${value.name.value}`;
      case "ListValue":
        return `[${value.values.map((member) => this.#placesIn(member)).join()}]`;
      case "ObjectValue":
        return `{${value.fields.map((field) => `${field.name.value}:${this.#placesIn(field.value)}`).join()}}`;
      default:
        return "";
    }
  }
}
