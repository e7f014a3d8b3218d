import {
  type ExecutionResult,
  execute,
  type FieldNode,
  type GraphQLCompositeType,
  GraphQLError,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getNamedType,
  type OperationDefinitionNode,
} from "graphql";
import { abortSignalOf, coercedVariables, partOfExecution } from "../base/graphql-version.js";
import { getOrMake } from "../base/multimap.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { type Build, operationOf } from "../loader/request-states.js";
import { documentWithIds, type NestedDocument, nestedDocument, responseKeyOf } from "./nested-document.js";
import type { Fragments, SelectedTypes, SelectionPlan } from "./selection-plan.js";
import { originalsOf, resolvedBy } from "./twins.js";

export class NestedExecutions {
  readonly #source: NestedSource;
  readonly #nodes: readonly FieldNode[];
  readonly #fragments: Fragments;
  readonly #plan: SelectionPlan;
  readonly #hasIds: boolean;
  /** By the nodes that an execution has collected: `@include` can leave some of them out. */
  readonly #documents = new Map<string, Readonly<Record<"ordinary" | "stored" | "holes", NestedDocument>>>();

  /** `hasIds`: whether builds ask for the ids of objects. */
  constructor(
    source: NestedSource,
    nodes: readonly FieldNode[],
    plan: SelectionPlan,
    fragments: Fragments,
    hasIds: boolean,
  ) {
    this.#source = source;
    this.#nodes = nodes;
    this.#plan = plan;
    this.#fragments = fragments;
    this.#hasIds = hasIds;
  }

  /** Executes a document of the field for a call of its twin. `ordinary`: as without its subtree, for this request alone. */
  async execute(
    what: "ordinary" | "stored" | "holes",
    context: unknown,
    info: GraphQLResolveInfo,
    { build, rootValue }: { readonly build?: Build; readonly rootValue?: unknown } = {},
  ): Promise<Completed> {
    const nodes = originalsOf(info);
    const document = this.#documentsOf(nodes)[what];
    const values = coercedVariables(info.variableValues);
    const given = document.variables.filter((name) => Object.hasOwn(values, name));
    const place = placeOf(info);
    const own = (operation: OperationDefinitionNode): OperationDefinitionNode => {
      const ofObject = place === undefined ? operation : operationOfObject(operation, place.object);
      return build === undefined ? partOfExecution(ofObject, info) : operationOf(build, ofObject);
    };
    const signal = abortSignalOf(info);
    const args = {
      schema: this.#source.buildSchema,
      document: document.with(own),
      rootValue,
      contextValue: context,
      variableValues: Object.fromEntries(given.map((name) => [name, values[name]])),
      ...(signal === undefined ? {} : { abortSignal: signal as AbortSignal }),
    };
    const { data, errors = [] } = (await execute(args)) as ExecutionResult;
    const value = data?.[responseKeyOf(nodes[0] as FieldNode)] ?? null;
    return { value, errors: place === undefined ? errors : errors.map((error) => errorAt(error, place.path)) };
  }

  #documentsOf(originals: readonly FieldNode[]): Readonly<Record<"ordinary" | "stored" | "holes", NestedDocument>> {
    const id = originals.map((node) => this.#nodes.indexOf(node)).join();
    if (this.#documents.size >= MAX_DOCUMENTS && !this.#documents.has(id)) this.#documents.clear();
    return getOrMake(this.#documents, id, () => {
      const { types, field, nestedNode } = this.#source;
      const nodes = originals.map(nestedNode);
      const named = getNamedType(field.type) as GraphQLCompositeType;
      const withIds = (what: "stored" | "holes"): NestedDocument =>
        documentWithIds(what, nodes, named, types, this.#fragments);
      const ordinary = nestedDocument(nodes, this.#fragments);
      return {
        ordinary,
        stored: this.#hasIds ? withIds("stored") : ordinary,
        holes: this.#plan.hasHoles ? withIds("holes") : ordinary,
      };
    });
  }
}

/** The documents that are kept for the conditions of the nodes of one field. Clients can send any values. */
const MAX_DOCUMENTS = 16;

/** Leads from the `info` of a read to the object that it is about. */
export const PLACE: unique symbol = Symbol("graphql-cached.subtree-place");

export interface ListedObject {
  readonly object: unknown;
  /** Whether it must not be null. */
  readonly isStrict: boolean;
  /** What part of the list it is. */
  readonly share: number;
}

/** What an object of a list is read for. `path`: that of the object in the response. */
export const placeOf = (info: object): (ListedObject & { readonly path: readonly (string | number)[] }) | undefined =>
  (info as { readonly [PLACE]?: ReturnType<typeof placeOf> })[PLACE];

export interface Completed {
  readonly value: unknown;
  readonly errors: readonly GraphQLError[];
}

export interface NestedSource {
  readonly field: AnyField;
  readonly types: SelectedTypes;
  readonly buildSchema: GraphQLSchema;
  /** Returns the node of the query type of `buildSchema` in the place of one that the client has written. */
  nestedNode(node: FieldNode): FieldNode;
}

function operationOfObject(operation: OperationDefinitionNode, object: unknown): OperationDefinitionNode {
  const [first, ...others] = operation.selectionSet.selections;
  const selections = [resolvedBy(first as FieldNode, () => object), ...others];
  return { ...operation, selectionSet: { ...operation.selectionSet, selections } };
}

function errorAt(error: GraphQLError, path: readonly (string | number)[]): GraphQLError {
  const { message, nodes, source, positions, originalError, extensions } = error;
  const ownPath = error.path === undefined ? path : [...path, ...error.path.slice(1)];
  return new GraphQLError(message, {
    nodes: nodes ?? null,
    source,
    positions,
    path: ownPath,
    originalError,
    extensions,
  });
}
