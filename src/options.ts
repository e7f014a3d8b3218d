import { type Clock, MAX_TIMER_MS, type Random } from "./core/base/clock.js";
import { CachedError, checkOptionsObject, describeSetting } from "./core/base/errors.js";
import { type Meanings, unknownName } from "./core/base/option-names.js";
import type { Codec } from "./core/codec/codec.js";
import { type EncryptionOptions, expectedOfEncryption } from "./core/codec/encryption.js";
import { expectedOfTypes, type ValueTypes } from "./core/codec/value-type.js";
import { MAX_COMBINATIONS } from "./core/keys/tag-template.js";
import {
  GENERAL_SETTINGS,
  MEANINGS as MEANINGS_OF_SETTINGS,
  type PolicySettings,
  settingsMistakes,
} from "./core/policy/policy.js";
import type { Store } from "./core/store/store.js";
import type { Listener, Mode } from "./core/telemetry/events.js";
import type { Logger } from "./core/telemetry/log-listener.js";
import type { PurgeFunction } from "./core/tier/invalidation/purge.js";
import type { RefreshQueue } from "./core/tier/lease/refresh-job.js";
import type { ErrorMaxAgeMs } from "./core/tier/lease/settlement.js";
import { MODES } from "./core/tier/record/modes.js";

/** Options of `createCache`. Durations are in milliseconds; policies are in seconds, as in the directive. */
export interface CacheOptions<Context = object> {
  /** Where entries are kept. Default: a memory store for this process alone. */
  readonly store?: Store | undefined;
  /**
   * The first part of every key in the store. Caches with the same store and prefix share their
   * entries, PRIVATE ones included, so give each application its own. Required with a store that
   * other processes can use, such as Redis. Default: `gc`.
   */
  readonly prefix?: string | undefined;
  /**
   * Part of the name of every entry: entries of another version are not served. Change it when all
   * values may have changed in a way that no schema shows. Default: none.
   */
  readonly version?: string | undefined;
  /**
   * Returns the identity that PRIVATE values belong to. Fields of scope PRIVATE need it. Null and
   * undefined mean that the identity is unknown; the field is then resolved without the cache.
   */
  readonly identify?: ((context: Context) => string | number | bigint | null | undefined) | undefined;
  /** The policy of every cached field and loader, unless they set something else. Default: none. */
  readonly defaults?: Omit<PolicySettings, "key" | "tags" | "subtree" | "profile" | "version"> | undefined;
  /** Named policies, used with `@cached(profile: "name")`. Default: none. */
  readonly profiles?: Readonly<Record<string, PolicySettings>> | undefined;
  /** Keeps fresh values in the memory of this process as well. Pass `{}` for the default limits. Default: off. */
  readonly nearCache?: NearCacheOptions | undefined;
  /**
   * The mode of everything until this process has reached the store, which knows the modes that were set with
   * `cache.setMode`: `off`, `observe` or `on`. Default: `on`.
   */
  readonly initialMode?: Mode | undefined;
  /** Called with every event of the cache. Exceptions it throws are ignored. Default: none. */
  readonly onEvent?: Listener | undefined;
  /** Receives the few events worth a log line. Default: `console`. */
  readonly logger?: Logger | undefined;
  /** Encodes values as text or bytes. Default: JSON with Date, BigInt, Map, Set and Buffer. */
  readonly codec?: Codec | undefined;
  /** How instances of classes are encoded and written into keys, by name. Default: none, they are not cached. */
  readonly types?: ValueTypes | undefined;
  /** Keys for AES-256-GCM: the first one encrypts, all of them decrypt. Default: values are not encrypted. */
  readonly encryption?: EncryptionOptions | undefined;
  readonly loads?: LoadOptions<Context> | undefined;
  readonly leases?: LeaseOptions | undefined;
  readonly storage?: StorageOptions | undefined;
  readonly invalidation?: InvalidationOptions | undefined;
  readonly privacy?: PrivacyOptions | undefined;
  readonly limits?: LimitOptions | undefined;
  readonly subtrees?: SubtreeOptions | undefined;
  readonly sampling?: SamplingOptions | undefined;
  readonly inspection?: InspectionReportOptions | undefined;
  readonly testing?: TestingOptions | undefined;
}

/** Limits of the near cache. */
export interface NearCacheOptions {
  /** The most memory to take, in bytes: an estimate of what keys, values and tags take. Default: 32 MiB. */
  readonly maxBytes?: number | undefined;
  /** The most entries to keep. Default: 10,000. */
  readonly maxEntries?: number | undefined;
  /**
   * Whether readers share frozen values, so that code that modifies one fails, and get copies of values that cannot be
   * frozen. False: readers share all values as they are. Default: true.
   */
  readonly freeze?: boolean | undefined;
}

/** How values are loaded from their sources, and how the sources are protected. */
export interface LoadOptions<Context = object> {
  /** The longest a load may take before its callers get an error. Default: 30,000. */
  readonly loadTimeoutMs?: number | undefined;
  /** The most concurrent loads per coordinate and process; a batch of a loader counts as one. Default: 100. */
  readonly maxConcurrentLoads?: number | undefined;
  /** The most loads per coordinate that wait for a free place; further loads are refused. Default: 100,000. */
  readonly maxQueuedLoads?: number | undefined;
  /**
   * How long a failed load is shared with later callers, randomly shortened by up to half, and how
   * long a key whose value cannot be stored is loaded by every caller. Default: 1,000.
   */
  readonly errorBackoffMs?: number | undefined;
  /**
   * Returns how long an error is shared with later callers, in milliseconds, in the place of `errorBackoffMs`: a minute for what
   * does not exist, for example. 0: with those who wait for its load only. Undefined: `errorBackoffMs`. Shortened by the `jitter`
   * of the policy. Not asked about errors of one caller (`isCallerError`). Must be synchronous. Default: none.
   */
  readonly errorMaxAgeMs?: ErrorMaxAgeMs | undefined;
  /** Consecutive failures after which the loads of a coordinate are refused for a while. Default: no limit. */
  readonly breakerThreshold?: number | undefined;
  /**
   * Whether an error means that the source is in trouble: then a stale value is served, and `breakerThreshold` counts the
   * error. False: the source has answered that it has no value. Default: by status, code and name of the error; an error
   * that does not say counts as trouble.
   */
  readonly isSourceFailure?: ((error: unknown, coordinate: string) => boolean) | undefined;
  /**
   * Whether an error concerns only the caller that the load was run for. That caller gets it; all others load again.
   * Default: by status, code, name and message of the error, such as FORBIDDEN or 401.
   */
  readonly isCallerError?: ((error: unknown, coordinate: string) => boolean) | undefined;
  /**
   * Returns the signal that aborts when the request of a context is aborted, so that its abort does not become the
   * error of others. Default: `context.request.signal`, if there is one, and `info.getAbortSignal()` of graphql 17,
   * which also apply if the option is given.
   */
  readonly abortSignal?: ((context: Context) => AbortSignal | null | undefined) | undefined;
  /**
   * How long a load goes on that no request waits for any more, to be stored for the next one, before its signal aborts. For
   * sources that take longer than impatient callers wait. Default: 0.
   */
  readonly abandonedLoadMs?: number | undefined;
  /** Takes background refreshes of PUBLIC values; a worker runs them with `cache.refresh`. Default: they run in this process. */
  readonly refreshQueue?: RefreshQueue | undefined;
}

/** How long leases last, and how long callers wait for a load that another caller or process runs. */
export interface LeaseOptions {
  /** How long a lease lasts unless it is renewed: the delay before another process takes over after a crash. Default: 3,000. */
  readonly leaseMs?: number | undefined;
  /**
   * How long a caller waits for a load of another caller or process, or for an `exists` guard, before it loads itself.
   * Default: 10,000.
   */
  readonly leaseWaitMs?: number | undefined;
  /** The same for a caller that is itself part of a load. Default: 250. */
  readonly nestedWaitMs?: number | undefined;
  /** How long to wait for a fresh value before serving a stale one, where there is one. Default: no limit. */
  readonly softTimeoutMs?: number | undefined;
}

/** How the store is used. */
export interface StorageOptions {
  /** The time budget of one store operation; invalidations get ten times as much. Default: 100. */
  readonly storeTimeoutMs?: number | undefined;
  /**
   * While the store is unavailable, the maximum age of a load that later callers in this process
   * share. They may get values that other processes have invalidated meanwhile. Default: 0; callers
   * then share only a load that begins after they asked.
   */
  readonly outageShareMs?: number | undefined;
  /** The largest encoded value, before compression, that is stored. Default: 1 MiB. */
  readonly maxValueBytes?: number | undefined;
  /** Encoded values larger than this are compressed where that saves space. Default: never. */
  readonly compressAboveBytes?: number | undefined;
  /**
   * Whether requests wait until what they load is stored: one more round trip, for processes that are frozen as soon as they
   * have answered. See also `cache.settled`. Default: false.
   */
  readonly storeBeforeResponse?: boolean | undefined;
}

/** How invalidations and writes are protected against late stores. */
export interface InvalidationOptions {
  /** How long after a hard invalidation nothing is stored, for databases whose replicas lag. Default: 0. */
  readonly replicaLagMs?: number | undefined;
  /** How long the keys and tags of a `cache.mutate` stay protected if its process dies during the write. Default: 3,000. */
  readonly writeGuardMs?: number | undefined;
  /**
   * Brings tags into one form, so that spellings of one id are one tag: `(tag) => tag.toLowerCase()`. Applied to every tag,
   * of values and of invalidations. Synchronous, and the same in all processes; change `version` with it. Default: none.
   */
  readonly normalizeTag?: ((tag: string) => string) | undefined;
  /**
   * Purges a CDN of the responses with any of `tags`, after each invalidation by this process. It is awaited before the
   * mutation is answered; its failure is the event `purge.failed`. Default: none.
   */
  readonly purge?: PurgeFunction | undefined;
  /** How long an invalidation waits for `purge`. Default: 2,000. */
  readonly purgeTimeoutMs?: number | undefined;
}

/** What is checked so that private data is not shared. */
export interface PrivacyOptions {
  /**
   * Whether every field with `@cached` has to declare its `scope`. Default: true if the schema has any auth mark, such as
   * `@auth`.
   */
  readonly requireScope?: boolean | undefined;
  /**
   * The directives that restrict who may see a field, without `@`, such as `["members"]`. Default: those whose name says so,
   * such as `@auth`, `@hasRole` and `@isAuthenticated`.
   */
  readonly authDirectives?: readonly string[] | undefined;
  /** Warn when a PUBLIC field reads a context property that is not part of its key. Default: true unless NODE_ENV is production. */
  readonly warnOnContextReads?: boolean | undefined;
  /** Context properties that are the same for every caller, such as `["db", "log"]`. Default: none. */
  readonly sharedContextKeys?: readonly string[] | undefined;
}

/**
 * What one execution may make the cache do, so that a small request cannot multiply work or memory. Over a limit, fields
 * are not cached for the rest of the execution, which is reported once; nothing fails.
 */
export interface LimitOptions {
  /** The most bytes of arguments in the keys of an execution that are not remembered from earlier ones. Default: 4 MiB. */
  readonly maxKeyBytes?: number | undefined;
  /** The most bytes of values that are copied for a key that is asked for repeatedly; then one frozen value is shared. Default: 8 MiB. */
  readonly maxCopyBytes?: number | undefined;
  /**
   * The most tags that templates with several lists make in an execution, and of one result. A mutation that exceeds it
   * invalidates everything. At most 10,000. Default: 1,000.
   */
  readonly maxTagCombinations?: number | undefined;
}

/** How the fields with `subtree: true` are cached. */
export interface SubtreeOptions {
  /**
   * How many selections of a field this process keeps as subtrees. Others are cached field by field, until one that was not asked for
   * in the last minute makes room. Default: 64.
   */
  readonly maxSelections?: number | undefined;
}

/**
 * Compares some of the hits of PUBLIC values with their source, after they were served, to measure how many of them are
 * outdated. Each is one more call of the source.
 */
export interface SamplingOptions {
  /** The share of hits that are compared, from 0 to 1. Default: 0. */
  readonly sampleRatio?: number | undefined;
  /** The most hits that this process compares in a second, of all fields and loaders; of each of them, at most one. Default: 10. */
  readonly maxSamplesPerSecond?: number | undefined;
  /** The most calls of sources that this process makes for it at a time; of each field or loader, at most one. Default: 2. */
  readonly maxConcurrentSamples?: number | undefined;
}

/** How this process reports its counts to the inspection of the others. */
export interface InspectionReportOptions {
  /**
   * Whether it reports. Default: once `inspectionResolvers` was called with this cache, if other processes can use the
   * store.
   */
  readonly report?: boolean | undefined;
  /** How often. Default: 5,000. */
  readonly reportEveryMs?: number | undefined;
}

/** Time and randomness as arguments, for tests. */
export interface TestingOptions {
  /** Default: the system's monotonic clock. */
  readonly clock?: Clock | undefined;
  /** Returns a number from 0 (included) to 1 (excluded). Default: the system's. */
  readonly random?: Random | undefined;
}

/** One option: its default and its check, which returns what was expected if the value is invalid. */
interface Rule<Value> {
  readonly fallback: Value;
  readonly expected: (value: unknown) => string | undefined;
  /** Whether the value is left out of error messages. */
  readonly isSecret?: boolean;
  /** Returns what to do about an invalid value, if that can be told. */
  readonly remedy?: (value: unknown) => string | undefined;
}

/** Names the upper bound only if the value exceeds it, since hardly any does. */
const count = <Fallback>(
  fallback: Fallback,
  least: number,
  most = Number.MAX_SAFE_INTEGER,
  unit = "",
): Rule<number | Fallback> => ({
  fallback,
  expected(value) {
    if (typeof value === "number" && value > most) return `an integer from ${least} to ${most}${unit}`;
    return Number.isInteger(value) && (value as number) >= least ? undefined : `an integer of at least ${least}${unit}`;
  },
});
const durationMs = <Fallback>(fallback: Fallback, least: number): Rule<number | Fallback> =>
  count(fallback, least, MAX_TIMER_MS, " (milliseconds)");
/** A rule that expects one thing. */
const rule = <Value>(fallback: Value, what: string, isValid: (value: unknown) => boolean): Rule<Value> => ({
  fallback,
  expected: (value) => (isValid(value) ? undefined : what),
});
const sizeBytes = <Fallback>(fallback: Fallback): Rule<number | Fallback> =>
  rule<number | Fallback>(
    fallback,
    `an integer from 0 to ${2 ** 28} (bytes)`,
    (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 2 ** 28,
  );
const names = <Fallback>(fallback: Fallback): Rule<readonly string[] | Fallback> =>
  rule<readonly string[] | Fallback>(
    fallback,
    "an array of names",
    (value) => Array.isArray(value) && value.every((name) => typeof name === "string" && /^\w+$/.test(name)),
  );
const flag = rule<boolean | undefined>(undefined, "true or false", (value) => typeof value === "boolean");
const functionRule = <Value>(): Rule<Value | undefined> =>
  rule<Value | undefined>(undefined, "a function", (value) => typeof value === "function");
const objectWith = <Value>(what: string, ...methods: readonly string[]): Rule<Value | undefined> =>
  rule<Value | undefined>(undefined, what, (value) => {
    const has = (method: string): boolean => typeof (value as Record<string, unknown>)[method] === "function";
    return typeof value === "object" && value !== null && methods.every(has);
  });

type Rules<Options> = { readonly [Name in keyof Options]-?: Rule<unknown> };

/** The options outside of groups, except policies. */
export const OPTIONS = {
  store: objectWith<Store>("a store, such as memoryStore() or redisStore({ client })", "read", "acquire", "open"),
  prefix: rule<string>(
    "gc",
    "a string of letters, digits and any of _ . : -",
    (value) => typeof value === "string" && /^[A-Za-z0-9_.:-]+$/.test(value),
  ),
  version: rule<string | undefined>(
    undefined,
    "a non-empty string",
    (value) => typeof value === "string" && value !== "",
  ),
  identify: functionRule<(context: never) => unknown>(),
  nearCache: {
    fallback: undefined as NearCacheOptions | undefined,
    expected: expectedOfNearCache,
    remedy: (value: unknown) =>
      value === true ? "write nearCache: {} for the default limits" : value === false ? "omit it" : undefined,
  },
  initialMode: rule<Mode>("on", "one of the modes off, observe and on", (value) =>
    MODES.some((mode) => mode === value),
  ),
  onEvent: functionRule<Listener>(),
  logger: objectWith<Logger>("an object with the methods info and warn", "info", "warn"),
  codec: { fallback: undefined as Codec | undefined, expected: expectedOfCodec },
  types: { fallback: undefined as ValueTypes | undefined, expected: expectedOfTypes },
  encryption: {
    fallback: undefined as EncryptionOptions | undefined,
    expected: expectedOfEncryption,
    isSecret: true,
  },
} as const satisfies Rules<Omit<CacheOptions, "defaults" | "profiles" | keyof typeof OPTION_GROUPS>>;

/** The options in groups. Their names are unique across groups. */
export const OPTION_GROUPS = {
  loads: {
    loadTimeoutMs: durationMs(30_000, 1),
    maxConcurrentLoads: count(100, 1),
    maxQueuedLoads: count(100_000, 0),
    errorBackoffMs: durationMs(1_000, 1),
    errorMaxAgeMs: functionRule<ErrorMaxAgeMs>(),
    breakerThreshold: count(undefined, 1),
    isSourceFailure: functionRule<(error: unknown, coordinate: string) => boolean>(),
    isCallerError: functionRule<(error: unknown, coordinate: string) => boolean>(),
    abortSignal: functionRule<(context: never) => unknown>(),
    abandonedLoadMs: durationMs(0, 0),
    refreshQueue: functionRule<RefreshQueue>(),
  } satisfies Rules<LoadOptions>,
  leases: {
    leaseMs: durationMs(3_000, 100),
    leaseWaitMs: durationMs(10_000, 1),
    nestedWaitMs: durationMs(250, 1),
    softTimeoutMs: durationMs(undefined, 1),
  } satisfies Rules<LeaseOptions>,
  storage: {
    storeTimeoutMs: durationMs(100, 1),
    outageShareMs: durationMs(0, 0),
    maxValueBytes: sizeBytes(1024 * 1024),
    compressAboveBytes: sizeBytes(undefined),
    storeBeforeResponse: flag,
  } satisfies Rules<StorageOptions>,
  invalidation: {
    replicaLagMs: durationMs(0, 0),
    writeGuardMs: durationMs(3_000, 100),
    normalizeTag: functionRule<(tag: string) => string>(),
    purge: functionRule<PurgeFunction>(),
    purgeTimeoutMs: durationMs(2_000, 1),
  } satisfies Rules<InvalidationOptions>,
  privacy: {
    requireScope: flag,
    authDirectives: names(undefined),
    warnOnContextReads: flag,
    sharedContextKeys: names([]),
  } satisfies Rules<PrivacyOptions>,
  limits: {
    maxKeyBytes: sizeBytes(4 * 1024 * 1024),
    maxCopyBytes: sizeBytes(8 * 1024 * 1024),
    maxTagCombinations: count(1_000, 1, MAX_COMBINATIONS),
  } satisfies Rules<LimitOptions>,
  subtrees: {
    maxSelections: count(64, 1, 10_000),
  } satisfies Rules<SubtreeOptions>,
  sampling: {
    sampleRatio: rule<number>(
      0,
      "a number from 0 to 1",
      (value) => typeof value === "number" && value >= 0 && value <= 1,
    ),
    maxSamplesPerSecond: count(10, 1),
    maxConcurrentSamples: count(2, 1),
  } satisfies Rules<SamplingOptions>,
  inspection: {
    report: flag,
    reportEveryMs: durationMs(5_000, 100),
  } satisfies Rules<InspectionReportOptions>,
  testing: {
    clock: objectWith<Clock>("an object with the methods now, after and afterTick", "now", "after", "afterTick"),
    random: functionRule<Random>(),
  } satisfies Rules<TestingOptions>,
} as const;

function expectedOfNearCache(value: unknown): string | undefined {
  const expected =
    "an object with the optional properties maxBytes and maxEntries (integers of at least 1) and freeze (true or false)";
  if (typeof value !== "object" || value === null || Array.isArray(value)) return expected;
  const isValid = Object.entries(value).every(([name, setting]) => {
    if (setting === undefined) return true;
    if (name === "freeze") return typeof setting === "boolean";
    return ["maxBytes", "maxEntries"].includes(name) && Number.isSafeInteger(setting) && (setting as number) >= 1;
  });
  return isValid ? undefined : expected;
}

function expectedOfCodec(value: unknown): string | undefined {
  const { id, encode, decode } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  if (typeof encode !== "function" || typeof decode !== "function")
    return "an object with the methods encode and decode";
  return id === undefined || (typeof id === "string" && /^[\w.:-]{1,32}$/.test(id))
    ? undefined
    : "a codec whose `id` is 1 to 32 letters, digits and any of _ . : -";
}

type Fallbacks<Group> = { readonly [Name in keyof Group]: Group[Name] extends Rule<infer Value> ? Value : never };
type GroupFallbacks = { readonly [Name in keyof typeof OPTION_GROUPS]: Fallbacks<(typeof OPTION_GROUPS)[Name]> };
type Intersection<Union> = (Union extends unknown ? (member: Union) => void : never) extends (all: infer All) => void
  ? All
  : never;

/** Every option with its value or its default, without groups; frozen. */
export type ResolvedOptions = Fallbacks<typeof OPTIONS> &
  Intersection<GroupFallbacks[keyof GroupFallbacks]> & {
    readonly defaults: PolicySettings;
    readonly profiles: Readonly<Record<string, PolicySettings>>;
    /** Whether NODE_ENV is `production`. */
    readonly isProduction: boolean;
  };

/** Validates the options of `createCache`. Throws one `CACHED_OPTION_INVALID` that lists every mistake. */
export function resolveOptions(given: unknown): ResolvedOptions {
  checkOptionsObject(given, "createCache");
  const mistakes: string[] = [];
  const options = given as Record<string, unknown>;
  const values: Record<string, unknown> = {
    isProduction: process.env.NODE_ENV === "production",
    defaults: options.defaults ?? {},
    profiles: options.profiles ?? {},
  };
  readRules("", options, OPTIONS, values, mistakes);
  for (const [group, rules] of Object.entries(OPTION_GROUPS)) {
    const settings = options[group] ?? {};
    if (typeof settings !== "object" || Array.isArray(settings)) {
      mistakes.push(`\`${group}\`: expected an object of options, got ${describeSetting(settings)}`);
      continue;
    }
    readRules(`${group}.`, settings as Record<string, unknown>, rules, values, mistakes);
    for (const name of Object.keys(settings))
      if (!Object.hasOwn(rules, name)) mistakes.push(unknownOption(`${group}.${name}`, Object.keys(rules)));
  }
  for (const name of Object.keys(options)) if (!TOP_LEVEL.includes(name)) mistakes.push(unknownOption(name, TOP_LEVEL));
  mistakes.push(...policyMistakes(values.defaults, values.profiles));
  mistakes.push(...combinationMistakes(options, values as unknown as ResolvedOptions));
  if (mistakes.length > 0) throw new CachedError("CACHED_OPTION_INVALID", `createCache: ${mistakes.join("; ")}`);
  return Object.freeze(values) as unknown as ResolvedOptions;
}

const TOP_LEVEL: readonly string[] = [...Object.keys(OPTIONS), "defaults", "profiles", ...Object.keys(OPTION_GROUPS)];

/** Writes the option values, or their defaults, to `values`. */
function readRules(
  path: string,
  options: Readonly<Record<string, unknown>>,
  rules: Readonly<Record<string, Rule<unknown>>>,
  values: Record<string, unknown>,
  mistakes: string[],
): void {
  for (const [name, { fallback, expected, isSecret, remedy }] of Object.entries(rules)) {
    const value = options[name];
    values[name] = value ?? fallback;
    const wanted = value === undefined ? undefined : expected(value);
    if (wanted === undefined) continue;
    const got = isSecret === true ? "something else" : describeSetting(value);
    const advice = remedy?.(value);
    mistakes.push(`\`${path}${name}\`: expected ${wanted}, got ${got}${advice === undefined ? "" : `; ${advice}`}`);
    values[name] = fallback;
  }
}

function unknownOption(name: string, expected: readonly string[]): string {
  const own = name.split(".").at(-1) as string;
  const group = Object.entries(OPTION_GROUPS).find(([, rules]) => Object.hasOwn(rules, own))?.[0];
  if (group !== undefined) return `\`${name}\`: unknown option here; write { ${group}: { ${own} } }`;
  if (TOP_LEVEL.includes(own)) return `\`${name}\`: unknown option here; write it outside of the group`;
  return unknownName(own, { kind: "option", known: expected, meanings: MEANINGS }, name);
}

/** Returns what several names mean. */
const allMean = (names: string, meaning: string): Meanings =>
  Object.fromEntries(names.split(" ").map((name) => [name, meaning]));

/** What other caches call an option. */
const MEANINGS: Meanings = {
  ...Object.fromEntries(GENERAL_SETTINGS.map((name) => [name.toLowerCase(), meaningOf(`\`${name}\``)])),
  ...Object.fromEntries(Object.entries(MEANINGS_OF_SETTINGS).map(([name, meaning]) => [name, meaningOf(meaning)])),
  ...allMean("redis client redisclient url host connection", "`store: redisStore({ client })`"),
  memcached: "`store: memcachedStore({ client })`",
  ...allMean("sqlite path file", "`store: sqliteStore({ path })`"),
  memory: "`store: memoryStore()`",
  ...allMean("keyprefix namespace name", "`prefix`"),
  ...allMean("near l1 local localcache", "`nearCache`"),
  ...allMean("user userid getuserid session sessionid", "`identify`"),
  log: "`logger`",
  ...allMean("on listener", "`onEvent`"),
  ...allMean("serializer serialize", "`codec`"),
};

/** A policy is not an option of a cache, but can be the default of its fields. */
function meaningOf(setting: string): string {
  const [, name = "", unit = ""] = /^`(.*)`(.*)$/.exec(setting) ?? [];
  const isDuration = /Age|stale/.test(name);
  return `\`defaults: { ${name} }\`${unit === "" && isDuration ? ", in seconds" : unit}`;
}

function policyMistakes(defaults: unknown, profiles: unknown): string[] {
  const mistakes = settingsMistakes(defaults, GENERAL_SETTINGS).map((mistake) => `\`defaults\`: ${mistake}`);
  if (typeof profiles !== "object" || profiles === null || Array.isArray(profiles))
    return [...mistakes, `\`profiles\`: expected an object of policies, got ${describeSetting(profiles)}`];
  for (const [name, profile] of Object.entries(profiles))
    for (const mistake of settingsMistakes(profile, [...GENERAL_SETTINGS, "key", "tags", "subtree", "version"]))
      mistakes.push(`\`profiles.${name}\`: ${mistake}`);
  return mistakes;
}

/** Options that are valid by themselves but not together. */
function combinationMistakes({ prefix }: CacheOptions, { store, codec, types }: ResolvedOptions): string[] {
  const mistakes: string[] = [];
  if (prefix === undefined && store !== undefined && store.isShared !== false)
    mistakes.push(
      `\`prefix\`: expected a name for this application, since any other one can use the same ${store.name} store and would share its entries, got undefined; pass createCache({ prefix: "shop" }) with a name of your own`,
    );
  if (types !== undefined && codec !== undefined && codec.withTypes === undefined)
    mistakes.push(
      "`types`: expected a codec with the method withTypes, such as msgpackrCodec(), got one without; encode these classes in your codec, or remove `codec`",
    );
  return mistakes;
}
