import { expectedOfEncryption } from "./codec/encryption.js";
import { expectedOfTypes } from "./codec/value-type.js";
import { CachedError, describeSetting } from "./errors.js";
import { GENERAL_SETTINGS, type PolicySettings, settingsMistakes } from "./policy/policy.js";

/** One row: what an option is if nothing is said, and what it must be. `expected` answers undefined where a value fits. */
interface Row<Value> {
  readonly fallback: Value;
  readonly expected: (value: unknown) => string | undefined;
  /** Whether a wrong value must not show in the message, since it may be the right one in the wrong place. */
  readonly isSecret?: boolean;
}

const durationMs = (fallback: number, least: number): Row<number> => ({
  fallback,
  expected: (value) =>
    Number.isInteger(value) && (value as number) >= least && (value as number) <= 2 ** 31 - 1
      ? undefined
      : `a whole number of milliseconds, ${least} or more`,
});
const count = (fallback: number, least: number): Row<number> => ({
  fallback,
  expected: (value) =>
    Number.isSafeInteger(value) && (value as number) >= least ? undefined : `a whole number, ${least} or more`,
});
const optionalMs = (least: number): Row<number | undefined> => ({ ...durationMs(0, least), fallback: undefined });
const sizeBytes = (fallback: number): Row<number> => ({
  fallback,
  expected: (value) =>
    Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 2 ** 28
      ? undefined
      : `a whole number of bytes, 0 to ${2 ** 28}`,
});
const listOfNames = (fallback: readonly string[]): Row<readonly string[]> => ({
  fallback,
  expected: (value) =>
    Array.isArray(value) && value.every((name) => typeof name === "string" && /^\w+$/.test(name))
      ? undefined
      : "a list of names",
});
const functionOr = <Value>(): Row<Value | undefined> => ({
  fallback: undefined,
  expected: (value) => (typeof value === "function" ? undefined : "a function"),
});
const objectWith = <Value>(what: string, ...methods: readonly string[]): Row<Value | undefined> => ({
  fallback: undefined,
  expected: (value) => {
    const has = (method: string): boolean => typeof (value as Record<string, unknown>)[method] === "function";
    return typeof value === "object" && value !== null && methods.every(has) ? undefined : what;
  },
});

/** The bounds of the near cache. */
export interface NearCacheOptions {
  /** Bytes of values, as the store has them. Default 32 MiB. */
  readonly maxBytes?: number;
  /** Default 10,000. */
  readonly maxEntries?: number;
  /** Whether values are frozen, so that a resolver which changes a shared object is found out. Default: unless NODE_ENV is production. */
  readonly freeze?: boolean;
}

function isNearCache(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(([name, setting]) => {
    if (setting === undefined) return true;
    if (name === "freeze") return typeof setting === "boolean";
    return ["maxBytes", "maxEntries"].includes(name) && Number.isSafeInteger(setting) && (setting as number) >= 1;
  });
}

/** The options of `createCache` besides `defaults` and `profiles`, which are policies. */
export const OPTIONS = {
  /** Where entries rest. Not said: a memory store of its own. */
  store: objectWith<import("./store/store.js").Store>(
    "a store, such as memoryStore() or redisStore({ client })",
    "read",
    "acquire",
    "storeValues",
    "open",
  ),
  /** The first part of every key in the store. Caches with the same prefix and store share their entries. */
  prefix: {
    fallback: "gc",
    expected: (value: unknown) =>
      typeof value === "string" && /^[A-Za-z0-9_.:-]+$/.test(value) ? undefined : "letters, digits and any of _ . : -",
  } as Row<string>,
  /** Answers who is asking, from a request's context: a string or number; undefined for nobody. Needed for PRIVATE fields. */
  identify: functionOr<(context: never) => unknown>(),
  /** The directives that say a field is not for everybody, without @. A PUBLIC field under one of them has to say itself that it is shared. */
  authDirectives: listOfNames(["auth", "authenticated", "requiresScopes", "policy"]),
  /** Whether it is told of when the load of a PUBLIC value reads the context outside of its key. Not said: unless NODE_ENV is production. */
  warnOnContextReads: {
    fallback: undefined,
    expected: (value: unknown) => (typeof value === "boolean" ? undefined : "true or false"),
  } as Row<boolean | undefined>,
  /** The properties of the context that are the same for everybody, such as `["db", "log"]`: reading them is not told of. */
  sharedContextKeys: { ...listOfNames([]), fallback: undefined } as Row<readonly string[] | undefined>,
  /** Hears every event of the cache. What it throws is ignored. */
  onEvent: functionOr<import("./telemetry/events.js").Listener>(),
  /** Where the few things worth a log line go. Not said: the console. */
  logger: objectWith<import("./telemetry/log-listener.js").Logger>(
    "an object with the methods info and warn",
    "info",
    "warn",
  ),
  /** How values become text or bytes. Not said: JSON with Date, BigInt, Map, Set and Buffer. */
  codec: {
    fallback: undefined,
    expected: expectedOfCodec,
  } as Row<import("./codec/codec.js").Codec | undefined>,
  /** The classes whose instances may be cached, by name: how one is told, becomes plain data, and returns. */
  types: {
    fallback: undefined,
    expected: expectedOfTypes,
  } as Row<import("./codec/value-type.js").ValueTypes | undefined>,
  /** Values whose encoded form has more bytes than this are stored compressed, if that saves something. Not said: none. */
  compressAboveBytes: { ...sizeBytes(0), fallback: undefined } as Row<number | undefined>,
  /** The most bytes a value's encoded form may have, before compression. A larger value is given to its reader, and not stored. */
  maxValueBytes: sizeBytes(1024 * 1024),
  /** Encrypts all that is made of users' data before it is stored: the keys of AES-256-GCM, of which the first encrypts and all decrypt. */
  encryption: {
    fallback: undefined,
    expected: expectedOfEncryption,
    isSecret: true,
  } as Row<import("./codec/encryption.js").EncryptionOptions | undefined>,
  /** Keeps fresh values in this process's memory, for as long as the store tells of changes: `{}`, or its bounds. Not said: no near cache. */
  nearCache: {
    fallback: undefined,
    expected: (value: unknown) =>
      isNearCache(value)
        ? undefined
        : "an object with nothing but maxBytes and maxEntries (whole numbers, 1 or more) and freeze (true or false)",
  } as Row<NearCacheOptions | undefined>,
  /** Where background refreshes of public values go, instead of running in the process that was asked: a worker takes them with `cache.refresh(job)`. */
  refreshQueue: functionOr<import("./tier/refresh-job.js").RefreshQueue>(),
  /** How long one process may hold the right to load a key without renewing it. A crash is taken over after this. */
  leaseMs: durationMs(3_000, 100),
  /** The longest a reader waits for another's load, before he loads himself. */
  leaseWaitMs: durationMs(10_000, 1),
  /** The longest a load waits for another load that it needs. */
  nestedWaitMs: durationMs(250, 1),
  /** The longest a load may take, before its readers get an error. */
  loadTimeoutMs: durationMs(30_000, 1),
  /** How many loads of one coordinate a process runs at the same time. Those that begin in one tick count as one, since a source that batches gets one call. */
  maxConcurrentLoads: count(100, 1),
  /** How many loads of one coordinate wait for their turn. More are refused: stale if there is a stale value, else an error. */
  maxQueuedLoads: count(10_000, 0),
  /** After so many failures in a row the loads of a coordinate are refused for a while, then one is let through to see. Not said: never. */
  breakerThreshold: { ...count(1, 1), fallback: undefined } as Row<number | undefined>,
  /** Whether an error says that the source is in trouble, and not only that this value cannot be had. Not said: every error does. */
  isSourceFailure: functionOr<(error: unknown, coordinate: string) => boolean>(),
  /** How long a load's failure is shared with those who ask next, at most; chance shortens it by up to half. */
  errorBackoffMs: durationMs(1_000, 1),
  /** The time budget of one store operation; an invalidation has ten times as much. */
  storeTimeoutMs: durationMs(100, 1),
  /** After which a reader who could have a stale value stops waiting for a load and takes it. Not said: he waits. */
  softTimeoutMs: optionalMs(1),
  /** How long a load without a lease, while the store is away, is shared within this process, counted from its start; what others invalidate is not heard meanwhile. */
  outageShareMs: durationMs(1_000, 0),
  /** How long after an invalidation loads are not stored, since they may have read from a copy of the database that lags behind. */
  replicaLagMs: durationMs(0, 0),
  /** The longest a write bracket stands, should its process die. */
  writeGuardMs: durationMs(30_000, 100),
  /** The clock, for tests. */
  clock: objectWith<import("./clock.js").Clock>(
    "an object with the methods now, after and afterTick",
    "now",
    "after",
    "afterTick",
  ),
  /** Chance, for tests: a number from 0 (included) to 1 (excluded). */
  random: functionOr<import("./clock.js").Random>(),
} as const;

function expectedOfCodec(value: unknown): string | undefined {
  const { id, encode, decode } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  if (typeof encode !== "function" || typeof decode !== "function")
    return "an object with the methods encode and decode";
  return id === undefined || (typeof id === "string" && /^[\w.:-]{1,32}$/.test(id))
    ? undefined
    : "an object whose `id` is 1 to 32 letters, digits and any of _ . : -";
}

type OptionName = keyof typeof OPTIONS;
type OptionValues = { readonly [Name in OptionName]: (typeof OPTIONS)[Name]["fallback"] };

/** What `createCache` takes. */
export type CacheOptions<Context = never> = {
  readonly [Name in Exclude<OptionName, "identify">]?: OptionValues[Name];
} & {
  /** Answers who is asking, from a request's context: a string or number; undefined for nobody. Needed for PRIVATE fields. */
  readonly identify?: (context: Context) => unknown;
  /** What holds wherever nothing else is said, in seconds as in the directive. */
  readonly defaults?: Omit<PolicySettings, "key" | "tags" | "profile">;
  /** Policies by name, for `@cached(profile: …)`. */
  readonly profiles?: Readonly<Record<string, PolicySettings>>;
};

/** Every option, with its value or its fallback; frozen. */
export type ResolvedOptions = OptionValues & {
  readonly defaults: PolicySettings;
  readonly profiles: Readonly<Record<string, PolicySettings>>;
};

/** Errors: `CACHED_OPTION_INVALID`, one for all mistakes. */
export function resolveOptions(given: object): ResolvedOptions {
  if (typeof given !== "object" || given === null)
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `createCache: an object of options was expected, ${describeSetting(given)} came`,
    );
  const { defaults = {}, profiles = {}, ...others } = given as Record<string, unknown>;
  const names = Object.keys(OPTIONS) as OptionName[];
  const mistakes: string[] = [];
  for (const [name, value] of Object.entries(others)) {
    const row = Object.hasOwn(OPTIONS, name) ? (OPTIONS[name as OptionName] as Row<unknown>) : undefined;
    const expected = value === undefined ? undefined : row?.expected(value);
    if (row === undefined)
      mistakes.push(`\`${name}\` is not an option; there are ${[...names, "defaults", "profiles"].join(", ")}`);
    else if (expected !== undefined)
      mistakes.push(
        `\`${name}\` must be ${expected}, ${row.isSecret ? "something else" : describeSetting(value)} came`,
      );
  }
  for (const mistake of settingsMistakes(defaults, GENERAL_SETTINGS)) mistakes.push(`defaults: ${mistake}`);
  if (typeof profiles !== "object" || profiles === null)
    mistakes.push(`\`profiles\` must be an object of policies, ${describeSetting(profiles)} came`);
  for (const [name, profile] of Object.entries(profiles ?? {}))
    for (const mistake of settingsMistakes(profile, [...GENERAL_SETTINGS, "key", "tags"]))
      mistakes.push(`profile \`${name}\`: ${mistake}`);
  if (mistakes.length > 0) throw new CachedError("CACHED_OPTION_INVALID", `createCache: ${mistakes.join("; ")}`);
  const values = Object.fromEntries(names.map((name) => [name, others[name] ?? OPTIONS[name].fallback]));
  return Object.freeze({ ...values, defaults, profiles }) as unknown as ResolvedOptions;
}
