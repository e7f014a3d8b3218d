import { AssertionError } from "node:assert";
import { checkOptionsObject, describeSetting } from "../../core/base/errors.js";
import { partsOf } from "../../core/parts.js";
import type { FieldRule } from "../../core/schema-rules.js";
import {
  CheckFleet,
  type CheckOptions,
  type CheckProcess,
  type ContextFactory,
  type SchemaFactory,
} from "./check-fleet.js";
import type { CoordinateLoads, LoadCounter } from "./load-counter.js";
import { comparable, type Difference, differencesOf, type Response, show } from "./response-comparison.js";
import { invalid, type PreparedQuery, prepareQuery, type TestQuery } from "./test-query.js";

/**
 * Checks that a stampede loads each value once: sends `query` to several processes at the same time, several times
 * each, and once more when everything has been stored. One request alone shows how many values the query needs.
 * Returns how often each field and loader was loaded, by its coordinate or name.
 *
 * Rejects with an `AssertionError` that lists the fields and loaders which were loaded more often, and with
 * `CACHED_OPTION_INVALID` for a query or an option that cannot be used.
 */
export async function expectOneLoad<Context = object>(
  schema: SchemaFactory<Context>,
  query: TestQuery,
  options: OneLoadOptions<Context> = {},
): Promise<Readonly<Record<string, number>>> {
  const caller = "expectOneLoad";
  checkOptionsObject(options, caller);
  const { processes = 4, requests = 3, except = [] } = options;
  const context = contextOption(options.context);
  checkCount(caller, "processes", processes);
  checkCount(caller, "requests", requests);
  const run = async (fleet: CheckFleet<Context>, prepared: PreparedQuery, count: number): Promise<void> => {
    const sent = fleet.processes.flatMap((one) =>
      Array.from({ length: count }, () => fleet.run(one, prepared, context)),
    );
    for (const { errors = [] } of await Promise.all(sent))
      if (errors[0] !== undefined)
        fail(caller, [
          `${prepared.label}: expected a response without errors, since failed loads are not stored, got "${errors[0].message}" at \`${(errors[0].path ?? []).join(".")}\``,
        ]);
    await fleet.settled();
  };
  const alone = await CheckFleet.use(caller, schema, options, 1, async (fleet) => {
    await run(fleet, prepareQuery(fleet.first.schema, query, "query"), 1);
    return new Map([...fleet.record.loads].map(([coordinate, { byKey }]) => [coordinate, byKey.size]));
  });
  return CheckFleet.use(caller, schema, options, processes, async (fleet) => {
    const prepared = prepareQuery(fleet.first.schema, query, "query");
    await run(fleet, prepared, requests);
    const { record } = fleet;
    const coordinates = [...record.loads.keys()];
    const unknown = except.find((coordinate) => !coordinates.includes(coordinate));
    if (unknown !== undefined)
      throw invalid(
        `${caller}: \`except\`: expected cached fields and loaders of the query, got ${describeSetting(unknown)}; loaded were ${list(coordinates)}`,
      );
    if (coordinates.length === 0)
      fail(caller, [`${prepared.label}: expected a query with cached fields or loaders, got one that loads none`]);
    const isChecked = ([coordinate]: readonly [string, unknown]): boolean => !except.includes(coordinate);
    const total = processes * requests;
    const inFirstWave = new Map([...record.loads].map(([coordinate, loads]) => [coordinate, loadCount(loads)]));
    const failures = [...record.loads].filter(isChecked).flatMap(([coordinate, loads]) => {
      const failure = mistakeOf(loads, alone.get(coordinate) ?? 0);
      return failure === undefined ? [] : [describe(coordinate, failure, record)];
    });
    if (failures.length > 0)
      fail(caller, failures, `${prepared.label}, sent ${counted(total, "time")} to ${counted(processes, "process")}`);
    record.reset();
    await run(fleet, prepared, 1);
    const again = [...record.loads]
      .filter(isChecked)
      .map(([coordinate, loads]) =>
        describe(
          coordinate,
          `loaded again (${counted(loadCount(loads), "time")}) after its value had been loaded, expected a hit`,
          record,
        ),
      );
    if (again.length > 0) fail(caller, again, `${prepared.label}, sent once more to ${counted(processes, "process")}`);
    return Object.fromEntries(inFirstWave);
  });
}

/** Options of `expectOneLoad`. */
export interface OneLoadOptions<Context> extends CheckOptions<Context> {
  /** Creates the context of a request. All requests need the same identity. Default: `{}`. */
  readonly context?: ContextFactory<Context> | undefined;
  /** The number of processes: each has a cache and a schema of its own. Default: 4. */
  readonly processes?: number | undefined;
  /** How many requests each process gets at the same time. Default: 3. */
  readonly requests?: number | undefined;
  /** Coordinates of fields, and names of loaders, that may be loaded more than once. Default: none. */
  readonly except?: readonly string[] | undefined;
}

/** Options of `expectSameResponse`. */
export interface SameResponseOptions<Context> extends NoLeaksOptions<Context> {
  /** Creates the context of a request. Default: `{}`. */
  readonly context?: ContextFactory<Context> | undefined;
}

/** Options of `expectNoLeaks`. */
export interface NoLeaksOptions<Context> extends CheckOptions<Context> {
  /**
   * Paths of response keys that are not compared, without list indexes, such as `movies.fetchedAt`: values that differ
   * from request to request without the cache, too. Default: none.
   */
  readonly ignore?: readonly string[] | undefined;
}

/** The most failures that an error lists. */
const MAX_LISTED = 10;

/** Returns what is wrong with the loads of a coordinate that has `keyCount` keys in one request. */
function mistakeOf({ byKey, withoutKey }: CoordinateLoads, keyCount: number): string | undefined {
  const [bypass] = withoutKey;
  if (bypass !== undefined)
    return bypass[0] === "NO_IDENTITY"
      ? `resolved ${counted(bypass[1], "time")} without the cache (NO_IDENTITY): it is PRIVATE, and \`identify\` returned nothing for the context; pass \`context\` and \`cache: { identify }\``
      : `resolved ${counted(bypass[1], "time")} without the cache (${bypass[0]})`;
  if (byKey.size > keyCount)
    return `${counted(byKey.size, "key")}, expected the ${keyCount} of one request: a part of the key differs from request to request`;
  const most = Math.max(0, ...byKey.values());
  return most > 1
    ? `loaded up to ${most} times per key (${counted(sum(byKey), "load")} of ${counted(byKey.size, "key")}), expected once`
    : undefined;
}

const describe = (coordinate: string, failure: string, record: LoadCounter): string => {
  const obstacle = record.obstacleOf(coordinate);
  return `\`${coordinate}\`: ${failure}${obstacle === undefined ? "" : `: ${obstacle}`}`;
};

/**
 * Checks that the responses to `queries` with the cache are those without it: for a first request, for one that is
 * served from the cache, and for one in another process. All queries share the cache in their order, so that two
 * queries which differ in one argument show whether it is part of the key.
 *
 * Rejects with an `AssertionError` that names the query, the path and both values, also if a query is not served
 * from the cache at all, or if its response differs without the cache, too; and with `CACHED_OPTION_INVALID` for a
 * query or an option that cannot be used.
 */
export async function expectSameResponse<Context = object>(
  schema: SchemaFactory<Context>,
  queries: readonly TestQuery[],
  options: SameResponseOptions<Context> = {},
): Promise<void> {
  const caller = "expectSameResponse";
  checkOptionsObject(options, caller);
  const context = contextOption(options.context);
  await CheckFleet.use(caller, schema, options, 2, async (fleet) => {
    const comparison = new Comparison(caller, fleet, queries, options.ignore);
    const expected = await comparison.references(context, "");
    const [first, second] = fleet.processes as [CheckProcess<Context>, CheckProcess<Context>];
    const failures: string[] = [];
    for (const [stage, process] of [
      ["in its first run", first],
      ["when it is served from the cache", first],
      ["when another process serves it from the cache", second],
    ] as const) {
      for (const query of comparison.queries) {
        fleet.record.reset();
        const response = comparison.comparable(await fleet.run(process, query, context));
        await fleet.settled();
        const [difference] = differencesOf(expected.get(query) as Response, response);
        if (difference !== undefined)
          failures.push(
            `${query.label}: the response differs at \`${difference.path}\` ${stage}: expected ${show(difference.first)} as without the cache, got ${show(difference.second)}${comparison.cachedAt(query, difference, "add what its value depends on to `key`, and return only data that the codec restores")}`,
          );
        else if (process === second && fleet.record.served === 0)
          failures.push(
            `${query.label}: expected a query of which the cache serves at least a part, got one that it does not serve${because(fleet.record)}`,
          );
      }
      if (failures.length > 0) break;
    }
    comparison.finish(failures);
  });
}

/**
 * Checks that no identity is served what belongs to another one. `identities` creates the context of a request for
 * each identity, by name. Each of them is the first once, with all others after it, and once all of them ask at the same time.
 * Every response must be the one that the identity gets without the cache.
 *
 * Rejects with an `AssertionError` that names the query, the path, who saw whose value and the cached field, also if
 * nothing could leak because all identities get the same responses, or because nothing is served from the cache; and
 * with `CACHED_OPTION_INVALID` for an argument that cannot be used.
 */
export async function expectNoLeaks<Context = object>(
  schema: SchemaFactory<Context>,
  identities: Readonly<Record<string, ContextFactory<Context>>>,
  queries: readonly TestQuery[],
  options: NoLeaksOptions<Context> = {},
): Promise<void> {
  const caller = "expectNoLeaks";
  checkOptionsObject(options, caller);
  const names = Object.keys(identities ?? {});
  if (names.length < 2)
    throw invalid(
      `${caller}: \`identities\`: expected at least two, such as { anna: () => ({ userId: "1" }), ben: () => ({ userId: "2" }) }, got ${names.length}`,
    );
  const contextOf = (name: string): ContextFactory<Context> => identities[name] as ContextFactory<Context>;
  let served = 0;
  let isDependent = false;
  const seen = new Set<string>();
  for (const opener of [...names, undefined])
    await CheckFleet.use(caller, schema, options, 1, async (fleet) => {
      const comparison = new Comparison(caller, fleet, queries, options.ignore, seen);
      const expected = new Map<string, ReadonlyMap<PreparedQuery, Response>>();
      for (const name of names)
        expected.set(name, await comparison.references(contextOf(name), ` as ${JSON.stringify(name)}`));
      const referenceOf = (name: string, query: PreparedQuery): Response => expected.get(name)?.get(query) as Response;
      fleet.record.reset();
      const failures: string[] = [];
      for (const query of comparison.queries) {
        isDependent ||= names.some(
          (name) => differencesOf(referenceOf(names[0] as string, query), referenceOf(name, query)).length > 0,
        );
        const run = async (name: string): Promise<void> => {
          const response = comparison.comparable(await fleet.run(fleet.first, query, contextOf(name)));
          const [difference] = differencesOf(referenceOf(name, query), response);
          if (difference === undefined) return;
          const owner = names.find(
            (other) => other !== name && hasAt(referenceOf(other, query), referenceOf(name, query), difference),
          );
          failures.push(
            `${query.label}: ${JSON.stringify(name)} got ${show(difference.second)} at \`${difference.path}\`${owner === undefined ? "" : `, the value of ${JSON.stringify(owner)}`}, expected ${show(difference.first)} as without the cache${comparison.cachedAt(query, difference, "set scope: PRIVATE, or add what its value depends on to `key`")}`,
          );
        };
        if (opener === undefined) await Promise.all(names.map(run));
        else
          for (const name of [opener, ...names.filter((other) => other !== opener)]) {
            await run(name);
            await fleet.settled();
          }
      }
      served += fleet.record.served;
      comparison.finish(failures, opener === names.at(-1));
      if (opener === undefined && served === 0)
        fail(caller, [
          `expected queries of which the cache serves at least a part, got none that it serves${because(fleet.record)}`,
        ]);
    });
  if (!isDependent)
    fail(caller, [
      "expected at least one query whose response depends on the identity, got the same responses for all of them, so nothing could leak; add such a query, or check `identities`",
    ]);
}

/** Whether a response has at a path what the differing response has there. */
function hasAt(candidate: Response, reference: Response, { path, second }: Difference): boolean {
  const there = differencesOf(reference, candidate).find((one) => one.path === path);
  return there !== undefined && show(there.second) === show(second);
}

/** The queries of a check, and what is compared of their responses. */
class Comparison<Context> {
  readonly queries: readonly PreparedQuery[];
  readonly #caller: string;
  readonly #fleet: CheckFleet<Context>;
  readonly #ignored: readonly string[];
  /** The paths in `ignore` that a response has. */
  readonly #seen: Set<string>;

  constructor(
    caller: string,
    fleet: CheckFleet<Context>,
    queries: readonly TestQuery[],
    ignored: readonly string[] = [],
    seen = new Set<string>(),
  ) {
    if (!Array.isArray(queries) || queries.length === 0)
      throw invalid(
        `${caller}: \`queries\`: expected an array of at least one query, got ${Array.isArray(queries) ? "none" : describeSetting(queries)}`,
      );
    this.#caller = caller;
    this.#fleet = fleet;
    this.#ignored = ignored;
    this.#seen = seen;
    this.queries = queries.map((query, nth) => prepareQuery(fleet.first.schema, query, `queries[${nth}]`));
  }

  comparable(result: Parameters<typeof comparable>[0]): Response {
    return comparable(result, this.#ignored, this.#seen);
  }

  /** Returns the responses without the cache. Fails if they differ when the query is executed again. */
  async references(context: ContextFactory<Context>, asWhom: string): Promise<Map<PreparedQuery, Response>> {
    const references = new Map<PreparedQuery, Response>();
    const failures: string[] = [];
    const run = async (query: PreparedQuery): Promise<Response> =>
      this.comparable(await this.#fleet.run(this.#fleet.first, query, context, true));
    for (const query of this.queries) {
      const reference = await run(query);
      references.set(query, reference);
      for (const { path, pattern, first, second } of differencesOf(reference, await run(query)))
        failures.push(
          `${query.label}${asWhom}: two responses without the cache differ at \`${path}\` (${show(first)}, then ${show(second)}), so the cache cannot be checked there; make the resolver deterministic in the test, or pass { ignore: [${JSON.stringify(pattern)}] }`,
        );
    }
    if (failures.length > 0) fail(this.#caller, failures);
    return references;
  }

  /** Returns what is known about the cached field that a differing value probably came from. */
  cachedAt(query: PreparedQuery, { pattern }: Difference, remedy: string): string {
    const { rules } = partsOf(this.#fleet.first.cache, this.#caller);
    const steps = pattern.split(".");
    for (let depth = steps.length; depth > 0; depth--)
      for (const coordinate of query.coordinates.get(steps.slice(0, depth).join(".")) ?? []) {
        const rule = rules.fields.get(coordinate);
        if (rule !== undefined) return `; the cached field there is ${describeRule(rule, remedy)}`;
      }
    return "; no cached field leads there, so look at the loaders";
  }

  /** Fails with `failures`, and for paths in `ignore` that no response has. */
  finish(failures: readonly string[], isLast = true): void {
    if (failures.length > 0) fail(this.#caller, failures);
    const unused = this.#ignored.filter((path) => !this.#seen.has(path));
    if (isLast && unused.length > 0)
      throw invalid(
        `${this.#caller}: \`ignore\`: expected paths of the responses, such as movies.title, got ${list(unused)}, which no response has`,
      );
  }
}

function describeRule({ coordinate, policy, keyPaths }: FieldRule, remedy: string): string {
  return `\`${coordinate}\`, scope ${policy.scope}, whose key is ${list(keyPaths.map(({ text }) => text))}; ${remedy}`;
}

const because = (record: LoadCounter): string => {
  const obstacles = record.obstacles();
  return obstacles.length === 0 ? "" : `: ${obstacles.join("; ")}`;
};

const contextOption = <Context>(given: ContextFactory<Context> | undefined): ContextFactory<Context> =>
  given ?? (() => ({}) as Context);

function checkCount(caller: string, name: string, count: number): void {
  if (!Number.isInteger(count) || count < 1 || count > 1_000)
    throw invalid(`${caller}: \`${name}\`: expected an integer from 1 to 1000, got ${describeSetting(count)}`);
}

function fail(caller: string, failures: readonly string[], heading?: string): never {
  const listed = failures.slice(0, MAX_LISTED);
  const more = failures.length > listed.length ? [`and ${failures.length - listed.length} more`] : [];
  const lines = [...listed, ...more];
  const message =
    heading === undefined && lines.length === 1
      ? `${caller}: ${lines[0]}`
      : `${caller}: ${heading ?? `${failures.length} failures`}:\n${lines.map((line) => `- ${line}`).join("\n")}`;
  throw new AssertionError({ message, stackStartFn: fail });
}

const counted = (count: number, noun: string): string =>
  count === 1 ? `1 ${noun}` : `${count} ${noun}${noun.endsWith("s") ? "es" : "s"}`;
const sum = (counts: ReadonlyMap<string, number>): number => [...counts.values()].reduce((all, one) => all + one, 0);
const loadCount = ({ byKey, withoutKey }: CoordinateLoads): number => sum(byKey) + sum(withoutKey);
const list = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(", ") || "empty";
