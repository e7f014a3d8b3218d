import {
  type DocumentNode,
  type ExecutionArgs,
  execute as executeQuery,
  type GraphQLSchema,
  isSchema,
  Kind,
  parse,
  validate,
} from "graphql";
import { EXPECTED_TIMER_MS, isTimerMs, within } from "../core/base/clock.js";
import { CachedError, describeSetting, optionInvalid } from "../core/base/errors.js";
import { toError } from "../core/base/graphql-version.js";
import { checkOptionNames } from "../core/base/option-names.js";
import { checkServed } from "../core/directive/compile/served-schema.js";
import type { CacheParts } from "../core/parts.js";

/** Does what `Cache.warmUp` says. */
export async function warmUp<Operation extends WarmUpOperation, Context>(
  options: WarmUpOptions<Operation, Context>,
  parts: CacheParts,
): Promise<WarmUpReport> {
  checkOptions(options, parts);
  const { clock, channel } = parts;
  const { operations, schema, context, execute, concurrency = 8, timeoutMs = 30_000 } = options;
  const endsAt = clock.now() + timeoutMs;
  const run = async (operation: Operation, place: string): Promise<unknown> => {
    const document = queryOf(operation, place);
    if (execute !== undefined) return errorIn(await execute(operation));
    const [mistake] = validate(schema as GraphQLSchema, document);
    if (mistake !== undefined) return mistake;
    const { variables: variableValues, operationName } = operation;
    const contextValue: unknown = context === undefined ? {} : await context(operation);
    const args = { schema: schema as GraphQLSchema, document, variableValues, operationName, contextValue };
    return errorIn(await executeQuery(args as ExecutionArgs));
  };
  /** Executes the operations that have no error yet, and waits until what they have loaded is stored. */
  const runAll = async (errors: unknown[]): Promise<void> => {
    const queue = operations.entries();
    const runNext = async (): Promise<void> => {
      for (const [nth, operation] of queue) {
        if (errors[nth] !== undefined) continue;
        const place = `cache.warmUp: \`operations[${nth}]\``;
        const late = (): CachedError => lateError(place, timeoutMs);
        const ms = endsAt - clock.now();
        errors[nth] =
          ms > 0 ? await within(clock, run(operation, place).catch(toError), { ms, otherwise: late }) : late();
      }
    };
    await Promise.all(Array.from({ length: concurrency }, runNext));
    await within(clock, parts.settled(), { ms: endsAt - clock.now(), otherwise: () => undefined });
  };
  const counts = { loaded: 0, hits: 0, bypassed: 0 };
  const endCounting = channel.listen(
    (event) => {
      if (event.name === "load.finished") counts.loaded++;
      else if (event.name === "resolver.bypassed") counts.bypassed++;
      else if (event.name === "entry.served" && event.outcome !== "loaded") counts.hits++;
    },
    ["entry.served"],
  );
  const errors: unknown[] = [];
  await runAll(errors);
  endCounting();
  // The near cache keeps what is read from the store, not what is loaded.
  if (parts.live.near !== undefined && counts.loaded > 0) await runAll([...errors]);
  const failed = operations.flatMap((operation, nth) =>
    errors[nth] === undefined ? [] : [{ operation: nameOf(operation, nth), error: errors[nth] }],
  );
  return { ...counts, failed };
}

/** An operation that is executed to load what it reads. It may have more properties, for `context` and `execute`. */
export interface WarmUpOperation {
  readonly query: string;
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
  readonly operationName?: string | undefined;
}

/** What is loaded before a process takes traffic. `schema` or `execute` is required. */
export interface WarmUpOptions<Operation extends WarmUpOperation, Context> {
  readonly operations: readonly Operation[];
  /** The schema that `applyCached` has returned, to execute the operations with. */
  readonly schema?: GraphQLSchema | undefined;
  /** Returns the context of an operation for `schema`. Default: an empty object for each. */
  readonly context?: ((operation: Operation) => Context | PromiseLike<Context>) | undefined;
  /** Executes an operation in the place of `schema`, as a server does. Its result can be that of Apollo Server. */
  readonly execute?: ((operation: Operation) => unknown) | undefined;
  /** The most operations that are executed at a time. Default: 8. */
  readonly concurrency?: number | undefined;
  /** How long all of it may take. Default: 30,000. */
  readonly timeoutMs?: number | undefined;
}

/** What a warm-up has done. */
export interface WarmUpReport {
  /** The values that this process has loaded from their sources. */
  readonly loaded: number;
  /** The reads that were answered without a load of their own: from the store, from this process, or by another process's load. */
  readonly hits: number;
  /** The reads that did not use the cache, such as those of PRIVATE fields without an identity. */
  readonly bypassed: number;
  /** The operations with an error, by their names. Some of what they read may be loaded. */
  readonly failed: readonly { readonly operation: string; readonly error: unknown }[];
}

const NAMES = ["operations", "schema", "context", "execute", "concurrency", "timeoutMs"];

/** Throws one `CACHED_OPTION_INVALID` with every mistake. What is wrong with an operation is its own error. */
function checkOptions(options: unknown, parts: CacheParts): void {
  checkOptionNames(options, "cache.warmUp", NAMES);
  const { operations, schema, context, execute, concurrency, timeoutMs } = options as Partial<Record<string, unknown>>;
  const mistakes: string[] = [];
  const expect = (isValid: boolean, name: string, what: string, given: unknown): void => {
    if (!isValid) mistakes.push(`\`${name}\`: expected ${what}, got ${describeSetting(given)}`);
  };
  const isFunction = (value: unknown): boolean => value === undefined || typeof value === "function";
  const isCount = Number.isInteger(concurrency) && (concurrency as number) >= 1;
  expect(Array.isArray(operations), "operations", "an array of operations such as { query, variables }", operations);
  if (execute === undefined)
    expect(isSchema(schema), "schema", "the schema that applyCached has returned, or `execute` in its place", schema);
  else expect(schema === undefined, "schema", "nothing with `execute`, which executes the operations", schema);
  expect(isFunction(execute), "execute", "a function that executes an operation", execute);
  expect(isFunction(context), "context", "a function that returns the context of an operation", context);
  expect(concurrency === undefined || isCount, "concurrency", "an integer of at least 1", concurrency);
  expect(timeoutMs === undefined || isTimerMs(timeoutMs), "timeoutMs", EXPECTED_TIMER_MS, timeoutMs);
  if (mistakes.length > 0) throw optionInvalid(`cache.warmUp: ${mistakes.join("; ")}`);
  if (execute === undefined) checkServed(schema as GraphQLSchema, parts, "cache.warmUp");
}

/** Returns the document of an operation. Throws if it is invalid, or no query. */
function queryOf(operation: WarmUpOperation, place: string): DocumentNode {
  const { query, operationName } = operation ?? {};
  if (typeof query !== "string")
    throw optionInvalid(
      `${place}: expected an operation such as { query: "{ top { title } }", variables: {} }, got ${describeSetting(operation)}`,
    );
  const document = parse(query);
  // Null and an empty name, which servers accept, name none.
  const isNamed = (operationName ?? "") !== "";
  for (const definition of document.definitions) {
    if (definition.kind !== Kind.OPERATION_DEFINITION || definition.operation === "query") continue;
    const { operation: kind, name } = definition;
    if (isNamed && name?.value !== operationName) continue;
    throw optionInvalid(
      `${place}: expected a query, got ${name === undefined ? `a ${kind}` : `the ${kind} \`${name.value}\``}; remove it: a warm-up changes nothing and waits for nothing`,
    );
  }
  return document;
}

/** Returns the first error in the result of an execution, or of `executeOperation` of Apollo Server. */
function errorIn(result: unknown): unknown {
  const { body, errors } = (result ?? {}) as Result & { readonly body?: Readonly<Record<string, Result | undefined>> };
  return (errors ?? body?.singleResult?.errors ?? body?.initialResult?.errors)?.[0];
}

interface Result {
  readonly errors?: readonly unknown[] | undefined;
}

/** Returns what an operation is called in the report. */
const nameOf = (operation: WarmUpOperation | undefined, nth: number): string =>
  operation?.operationName ??
  /\b(?:query|mutation|subscription)\s+(\w+)/.exec(String(operation?.query))?.[1] ??
  `operations[${nth}]`;

const lateError = (place: string, timeoutMs: number): CachedError =>
  new CachedError(
    "CACHED_LOAD_TIMEOUT",
    `${place}: expected all operations to finish within ${timeoutMs} ms, but this one has not; raise \`timeoutMs\` or \`concurrency\`, or list fewer operations`,
  );
