import type { ExecutionArgs, ExecutionResult, GraphQLResolveInfo, GraphQLSchema } from "graphql";
import * as graphql from "graphql";
import { describe, it } from "vitest";
import { read } from "../project/source.js";

/** Whether the tests run on graphql 17 or later. `node scripts/verify.mjs graphql` runs them on every supported version. */
const isGraphql17: boolean = graphql.versionInfo.major >= 17;

export const itOnGraphql17: typeof it = it.runIf(isGraphql17) as typeof it; // graphql 16 lacks what such a test uses
export const describeOnGraphql17: typeof describe = describe.runIf(isGraphql17) as typeof describe; // as above

const SERVERS: Readonly<Record<string, string>> = {
  apollo: "@apollo/server",
  yoga: "graphql-yoga",
  mercurius: "mercurius",
};

/** Whether the installed version of graphql is in the peer range of a server or another package. */
export function acceptsThisGraphql(name: string): boolean {
  const { peerDependencies } = JSON.parse(read(`node_modules/${SERVERS[name] ?? name}/package.json`)) as Manifest;
  return peerDependencies.graphql.includes(`^${graphql.versionInfo.major}.`);
}

interface Manifest {
  readonly peerDependencies: { readonly graphql: string };
}

/** The result of an operation with @defer or @stream. */
export interface IncrementalResult {
  readonly initialResult: ExecutionResult;
  readonly subsequentResults: AsyncGenerator<Part, void, void>;
}

/** One part of an incremental result after the first. */
export interface Part {
  readonly hasNext: boolean;
  readonly incremental?: readonly { readonly data?: object; readonly items?: readonly unknown[] }[];
  readonly completed?: readonly { readonly id: string; readonly errors?: readonly Error[] }[];
}

/** The functions that graphql 17 has and graphql 16 lacks. */
interface Graphql17 {
  readonly GraphQLDeferDirective: graphql.GraphQLDirective;
  readonly GraphQLStreamDirective: graphql.GraphQLDirective;
  experimentalExecuteIncrementally(
    args: ExecutionArgs & { readonly abortSignal?: AbortSignal },
  ): Promise<IncrementalResult | ExecutionResult>;
  legacyExecuteIncrementally(args: ExecutionArgs): Promise<IncrementalResult>;
  validateExecutionArgs(args: ExecutionArgs): object;
  executeRootSelectionSet(validatedArgs: object): Promise<ExecutionResult> | ExecutionResult;
  parse(source: string, options: { readonly experimentalFragmentArguments: boolean }): graphql.DocumentNode;
}

export const graphql17: Graphql17 = graphql as never;

/** The coerced values of the variables, which graphql 17 passes to resolvers in another form. */
export function variablesOf({ variableValues }: GraphQLResolveInfo): Readonly<Record<string, unknown>> {
  const values = variableValues as object as Readonly<Record<string, unknown>>;
  return isGraphql17 ? (values.coerced as Readonly<Record<string, unknown>>) : values;
}

/**
 * Executes an operation in the way that delivers @defer and @stream in parts. The schema must have the
 * directives; the other functions of graphql 17 refuse it then.
 */
export const executeIncrementally = async (
  schema: GraphQLSchema,
  source: string,
  contextValue: unknown = {},
): Promise<IncrementalResult> => {
  const args = { schema, document: graphql.parse(source), contextValue };
  const result = await graphql17.experimentalExecuteIncrementally(args);
  if ("initialResult" in result) return result;
  return { initialResult: result, subsequentResults: (async function* () {})() };
};
