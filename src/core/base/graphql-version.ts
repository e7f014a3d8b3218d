/**
 * What differs between the supported versions of graphql: 16 and 17. Servers with an executor of
 * their own, such as GraphQL Yoga, pass resolvers an `info` of either form, so the form is
 * recognised by what is there. The version itself decides only where there is nothing to look at.
 */

import type { GraphQLInputType, GraphQLResolveInfo, GraphQLSchema, OperationDefinitionNode } from "graphql";
// As a namespace: a missing name of graphql 15 would fail before this module can say why.
import * as graphql from "graphql";
import { attempt, isObject } from "./built-in.js";
import { CachedError } from "./errors.js";

export { GraphQLError } from "graphql";

const { major, minor, patch } = graphql.versionInfo;
if (major < 16 || (major === 16 && minor < 6)) {
  const mistake = `graphql-cached: expected graphql 16.6 or later, got ${major}.${minor}.${patch}; run \`npm install graphql@16\``;
  throw new CachedError("CACHED_OPTION_INVALID", mistake);
}

/** Missing in graphql 15. */
export const getArgumentValues = graphql.getArgumentValues;

type VariableValues = GraphQLResolveInfo["variableValues"];

/** In graphql 17, the values of variables are in a property, beside what they were coerced from. */
interface SplitVariables {
  readonly sources: Readonly<Record<string, unknown>>;
  readonly coerced: Readonly<Record<string, unknown>>;
}

export function coercedVariables(values: VariableValues): Readonly<Record<string, unknown>> {
  return areSplit(values) ? values.coerced : (values as Readonly<Record<string, unknown>>);
}

/** With defaults. Undefined if some of `inputs` do not match their types. */
export function variablesOf(
  schema: GraphQLSchema,
  { variableDefinitions = [] }: OperationDefinitionNode,
  inputs: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> | undefined {
  if (variableDefinitions.length === 0) return {};
  const result = graphql.getVariableValues(schema, variableDefinitions, inputs) as {
    readonly errors?: unknown;
    readonly coerced?: VariableValues;
    readonly variableValues?: VariableValues;
  };
  const values = result.variableValues ?? result.coerced;
  return values === undefined ? undefined : coercedVariables(values);
}

/** Returns variable values of the same form. */
export function mapVariables(
  values: VariableValues,
  replace: (record: Readonly<Record<string, unknown>>) => object,
): VariableValues {
  if (!areSplit(values)) return replace(values as Readonly<Record<string, unknown>>) as VariableValues;
  const mapped = { sources: replace(values.sources), coerced: replace(values.coerced) };
  MAPPED.add(mapped);
  return mapped as VariableValues;
}

/** Made by `mapVariables`: looking at their records might count as a read of them. */
const MAPPED = new WeakSet<object>();

export const noVariables = (): VariableValues => (major >= 17 ? { sources: {}, coerced: {} } : {}) as VariableValues;

function areSplit(values: object): values is SplitVariables {
  if (MAPPED.has(values)) return true;
  const { sources, coerced } = values as { sources?: unknown; coerced?: unknown };
  if (!isObject(sources) || !isObject(coerced) || Object.keys(values).length !== 2) return false;
  // Or they are two variables of these names. No value that a client sends is a type.
  const [source] = Object.values(sources) as unknown[];
  if (source === undefined) return major >= 17 && Object.keys(coerced).length === 0;
  const type = (source as { readonly signature?: { readonly type?: unknown } | null } | null)?.signature?.type;
  return isObject(type) && Symbol.toStringTag in type;
}

export interface Input {
  readonly name: string;
  readonly type: GraphQLInputType;
  readonly defaultValue?: unknown;
}

/** The default of an input as resolvers get it, if any. graphql 17 keeps it as it is written. */
export function defaultOf(input: Input): unknown {
  const { default: written } = input as { readonly default?: unknown };
  if (written === undefined) return input.defaultValue;
  return getArgumentValues({ args: [input] } as never, { arguments: [] } as never)[input.name];
}

/** Returns `value` as a resolver receives it; undefined if it does not match the type. */
export function coerceInput(value: unknown, type: GraphQLInputType): { readonly value: unknown } | undefined {
  const coerce = graphql.coerceInputValue as (value: unknown, type: GraphQLInputType) => unknown;
  // graphql 16 throws where graphql 17 returns undefined.
  const coerced = attempt(() => coerce(value, type));
  return coerced === undefined ? undefined : { value: coerced };
}

/** One execution of an operation: the objects that together belong to it alone. */
export interface Execution {
  readonly owner: object;
  /** Undefined if the owner alone identifies the execution. */
  readonly signal: object | undefined;
}

/** Leads from the `info` of a load to the execution that the load was run for. */
const EXECUTION: unique symbol = Symbol("graphql-cached.execution");

interface Info extends Pick<GraphQLResolveInfo, "operation" | "path" | "variableValues"> {
  readonly getAbortSignal?: () => unknown;
  readonly [EXECUTION]?: Execution;
}

/**
 * Returns the execution that `info` belongs to. Variable values belong to one execution, except
 * that the events of a subscription share them in graphql 17 and GraphQL Yoga, where only the path
 * of the root field is new, and so do executions of the same validated arguments in graphql 17,
 * where each has a signal of its own.
 */
export function executionOf(info: GraphQLResolveInfo): Execution {
  const { [EXECUTION]: ofLoad, operation, path, variableValues } = info as Info;
  if (ofLoad !== undefined) return ofLoad;
  if (operation?.operation === "subscription" && isObject(path)) return { owner: rootOf(path), signal: undefined };
  const signal = (info as Info).getAbortSignal?.();
  return { owner: variableValues, signal: typeof signal === "object" ? (signal ?? undefined) : undefined };
}

export type ExecutionInfo = GraphQLResolveInfo;

/** Whether the variable values of an `info` alone say which execution it belongs to. */
export const isOnlyExecution = (info: ExecutionInfo): boolean =>
  (info as Info).getAbortSignal === undefined && info.operation?.operation !== "subscription";

function rootOf(path: GraphQLResolveInfo["path"]): object {
  let root = path;
  while (root.prev !== undefined) root = root.prev;
  return root;
}

/** What the `info` of a load has: its signal, for all who wait. graphql 16 gets one added. */
export const infoOfLoad = (info: GraphQLResolveInfo, load: { readonly signal: AbortSignal }) => ({
  getAbortSignal: () => load.signal,
  [EXECUTION]: executionOf(info),
});

/** Returns the abort signal of the execution that `info` belongs to. graphql 16 has none. */
export const abortSignalOf = (info: unknown): unknown => (info as Info | undefined)?.getAbortSignal?.();
