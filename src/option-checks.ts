import { MAX_TIMER_MS } from "./core/base/clock.js";
import { checkOptionsObject, describeSetting, optionInvalid } from "./core/base/errors.js";
import { type Meanings, unknownName } from "./core/base/option-names.js";
import { expectedOfEncryption } from "./core/codec/encryption.js";
import { expectedOfTypes } from "./core/codec/value-type.js";
import { MAX_COMBINATIONS } from "./core/keys/tag-template.js";
import {
  DEFAULT_SETTINGS,
  MEANINGS as MEANINGS_OF_SETTINGS,
  type PolicySettings,
  settingsMistakes,
} from "./core/policy/policy.js";
import type { CacheOptions } from "./options.js";

/** Throws one `CACHED_OPTION_INVALID` that lists every mistake. */
export function resolveOptions(given: unknown): ResolvedOptions {
  checkOptionsObject(given, "createCache");
  const mistakes: string[] = [];
  const options = given as Record<string, unknown>;
  const values: Record<string, unknown> = { isProduction: process.env.NODE_ENV === "production" };
  const read = (path: string, settings: Readonly<Record<string, unknown>>, rules: Rules<Record<string, unknown>>) => {
    for (const [name, { fallback, expected, isSecret, remedy }] of Object.entries(rules)) {
      const value = settings[name];
      const wanted = value === undefined ? undefined : expected(value);
      values[name] = wanted === undefined ? (value ?? fallback) : fallback;
      if (wanted === undefined) continue;
      const got = isSecret === true ? "something else" : describeSetting(value);
      const advice = remedy?.(value);
      mistakes.push(`\`${path}${name}\`: expected ${wanted}, got ${got}${advice === undefined ? "" : `; ${advice}`}`);
    }
  };
  read("", options, OPTIONS);
  for (const [group, rules] of Object.entries(OPTION_GROUPS)) {
    const settings = options[group] ?? {};
    if (typeof settings !== "object" || Array.isArray(settings)) {
      mistakes.push(`\`${group}\`: expected an object of options, got ${describeSetting(settings)}`);
      continue;
    }
    read(`${group}.`, settings as Record<string, unknown>, rules);
    for (const name of Object.keys(settings))
      if (!Object.hasOwn(rules, name)) mistakes.push(unknownOption(`${group}.${name}`, Object.keys(rules)));
  }
  for (const name of Object.keys(options)) if (!TOP_LEVEL.includes(name)) mistakes.push(unknownOption(name, TOP_LEVEL));
  const defaults = options.defaults ?? {};
  const mistakesInDefaults = settingsMistakes(defaults, DEFAULT_SETTINGS, MEANINGS_OF_DEFAULTS);
  mistakes.push(...mistakesInDefaults.map((mistake) => `\`defaults\`: ${mistake}`));
  values.defaults = { ...defaults, scope: values.defaultScope };
  mistakes.push(...combinationMistakes(options, values as unknown as ResolvedOptions));
  if (mistakes.length > 0) throw optionInvalid(`createCache: ${mistakes.join("; ")}`);
  return Object.freeze(values) as unknown as ResolvedOptions;
}

/** One option: its default, and its check, which returns what was expected of an invalid value. */
interface Rule<Fallback = unknown> {
  readonly fallback: Fallback;
  readonly expected: (value: unknown) => string | undefined;
  /** Whether the value is left out of error messages. */
  readonly isSecret?: boolean;
  /** Returns what to do about an invalid value, if that can be told. */
  readonly remedy?: (value: unknown) => string | undefined;
}

/** Names the upper bound only if the value exceeds it, since hardly any does. */
const count = <Value>(fallback: Value, least: number, most = Number.MAX_SAFE_INTEGER, unit = ""): Rule<Value> => ({
  fallback,
  expected(value) {
    if (typeof value === "number" && value > most) return `an integer from ${least} to ${most}${unit}`;
    return Number.isInteger(value) && (value as number) >= least ? undefined : `an integer of at least ${least}${unit}`;
  },
});
const durationMs = <Fallback>(fallback: Fallback, least: number): Rule<Fallback> =>
  count(fallback, least, MAX_TIMER_MS, " (milliseconds)");
const rule = <Fallback>(fallback: Fallback, what: string, isValid: (value: unknown) => boolean): Rule<Fallback> => ({
  fallback,
  expected: (value) => (isValid(value) ? undefined : what),
});
const sizeBytes = <Fallback>(fallback: Fallback): Rule<Fallback> =>
  rule(
    fallback,
    `an integer from 0 to ${2 ** 28} (bytes)`,
    (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 2 ** 28,
  );
const flag = rule(undefined, "true or false", (value) => typeof value === "boolean");
const aFunction = rule(undefined, "a function", (value) => typeof value === "function");
const objectWith = (what: string, ...methods: readonly string[]): Rule<undefined> =>
  rule(undefined, what, (value) => {
    const has = (method: string): boolean => typeof (value as Record<string, unknown>)[method] === "function";
    return typeof value === "object" && value !== null && methods.every(has);
  });

type Rules<Options> = { readonly [Name in keyof Options]-?: Rule };
type Groups = Pick<
  CacheOptions<never>,
  "loads" | "leases" | "storage" | "invalidation" | "privacy" | "limits" | "inspection" | "testing"
>;

export const OPTIONS = {
  store: objectWith("a store, such as memoryStore() or redisStore({ client })", "read", "acquire", "open"),
  prefix: rule(
    "gc",
    "a string of letters, digits and any of _ . : -",
    (value) => typeof value === "string" && /^[A-Za-z0-9_.:-]+$/.test(value),
  ),
  version: rule(undefined, "a non-empty string", (value) => typeof value === "string" && value !== ""),
  identify: aFunction,
  defaultScope: rule(undefined, '"PUBLIC" or "PRIVATE"', (value) => ["PUBLIC", "PRIVATE"].includes(value as string)),
  memory: {
    fallback: undefined,
    expected: expectedOfMemory,
    remedy: (value) => (value === true ? "omit it, since memory is on by default" : undefined),
  },
  onEvent: aFunction,
  logger: objectWith("an object with the methods info and warn", "info", "warn"),
  codec: { fallback: undefined, expected: expectedOfCodec },
  types: { fallback: undefined, expected: expectedOfTypes },
  encryption: { fallback: undefined, expected: expectedOfEncryption, isSecret: true },
} satisfies Rules<Omit<CacheOptions, "defaults" | keyof Groups>>;

/** The options in groups. Their names are unique across groups. */
export const OPTION_GROUPS = {
  loads: {
    loadTimeoutMs: durationMs(30_000, 1),
    maxConcurrentLoads: count(100, 1),
    maxQueuedLoads: count(100_000, 0),
    errorBackoffMs: {
      ...durationMs(1_000, 1),
      remedy: (value) =>
        value === 0 ? "write `loads: { errorMaxAgeMs: 0 }` for errors that later callers do not get" : undefined,
    },
    errorMaxAgeMs: {
      fallback: undefined,
      expected(value) {
        const expected = typeof value === "function" ? undefined : durationMs(undefined, 0).expected(value);
        return expected && `a function, or ${expected}`;
      },
    },
    breakerThreshold: count(undefined, 1),
    isSourceFailure: aFunction,
    isCallerError: aFunction,
    abortSignal: aFunction,
    abandonedLoadMs: durationMs(0, 0),
    refreshQueue: aFunction,
  },
  leases: {
    leaseMs: durationMs(3_000, 100),
    leaseWaitMs: durationMs(10_000, 1),
    nestedWaitMs: durationMs(250, 1),
    softTimeoutMs: durationMs(undefined, 1),
  },
  storage: {
    storeTimeoutMs: durationMs(100, 1),
    maxValueBytes: sizeBytes(1024 * 1024),
    compressAboveBytes: sizeBytes(undefined),
    storeBeforeResponse: flag,
  },
  invalidation: { replicaLagMs: durationMs(0, 0), writeGuardMs: durationMs(3_000, 100), normalizeTag: aFunction },
  privacy: {
    warnOnContextReads: flag,
    sharedContextKeys: rule(
      [],
      "an array of names",
      (value) => Array.isArray(value) && value.every((name) => typeof name === "string" && /^\w+$/.test(name)),
    ),
  },
  limits: { maxKeyBytes: sizeBytes(4 * 1024 * 1024), maxTagCombinations: count(1_000, 1, MAX_COMBINATIONS) },
  inspection: { report: flag },
  testing: {
    clock: objectWith("an object with the methods now, after and afterTick", "now", "after", "afterTick"),
    random: aFunction,
  },
} satisfies { readonly [Group in keyof Groups]-?: Rules<NonNullable<Groups[Group]>> };

function expectedOfMemory(value: unknown): string | undefined {
  const expected = `false, or an object with the optional properties maxBytes (an integer of at least 1) and maxStalenessMs (an integer from 0 to ${MAX_STALENESS_MS})`;
  if (value === false) return undefined;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return expected;
  const isValid = Object.entries(value).every(([name, setting]) => {
    if (setting === undefined) return true;
    if (!Number.isSafeInteger(setting)) return false;
    if (name === "maxBytes") return (setting as number) >= 1;
    return name === "maxStalenessMs" && (setting as number) >= 0 && (setting as number) <= MAX_STALENESS_MS;
  });
  return isValid ? undefined : expected;
}

/** Nothing outdated is served for longer, whatever is lost. */
const MAX_STALENESS_MS = 2_000;

function expectedOfCodec(value: unknown): string | undefined {
  const { id, encode, decode } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  if (typeof encode !== "function" || typeof decode !== "function")
    return "an object with the methods encode and decode";
  return id === undefined || (typeof id === "string" && /^[\w.:-]{1,32}$/.test(id))
    ? undefined
    : "a codec whose `id` is 1 to 32 letters, digits and any of _ . : -";
}

/** The values of options. Those with a default are never undefined. */
type Resolved<Own, Options> = {
  readonly [Name in keyof Own & keyof Options]: Own[Name] extends Rule<undefined>
    ? Options[Name]
    : NonNullable<Options[Name]>;
};
type ResolvedGroups = {
  readonly [Group in keyof Groups]-?: Resolved<(typeof OPTION_GROUPS)[Group], NonNullable<Groups[Group]>>;
};
type Intersection<Union> = (Union extends unknown ? (member: Union) => void : never) extends (all: infer All) => void
  ? All
  : never;

/** Every option with its value or its default, without groups; frozen. */
export type ResolvedOptions = Resolved<typeof OPTIONS, CacheOptions<never>> &
  Intersection<ResolvedGroups[keyof Groups]> & {
    readonly defaults: PolicySettings;
    readonly isProduction: boolean;
  };

const TOP_LEVEL: readonly string[] = [...Object.keys(OPTIONS), "defaults", ...Object.keys(OPTION_GROUPS)];

function unknownOption(name: string, expected: readonly string[]): string {
  const own = name.split(".").at(-1) as string;
  const group = Object.entries(OPTION_GROUPS).find(([, rules]) => Object.hasOwn(rules, own))?.[0];
  if (group !== undefined) return `\`${name}\`: unknown option here; write { ${group}: { ${own} } }`;
  if (TOP_LEVEL.includes(own)) return `\`${name}\`: unknown option here; write it outside of the group`;
  return unknownName(own, { kind: "option", known: expected, meanings: MEANINGS }, name);
}

const allMean = (names: string, meaning: string): Meanings =>
  Object.fromEntries(names.split(" ").map((name) => [name, meaning]));

const DEFAULT_SCOPE: Meanings = {
  scope: "createCache({ defaultScope })",
  private: 'createCache({ defaultScope: "PRIVATE" })',
  public: 'createCache({ defaultScope: "PUBLIC" })',
};
const MEANINGS_OF_DEFAULTS: Meanings = { ...MEANINGS_OF_SETTINGS, ...DEFAULT_SCOPE };

/** What other caches call an option. */
const MEANINGS: Meanings = {
  ...Object.fromEntries(DEFAULT_SETTINGS.map((name) => [name.toLowerCase(), meaningOf(`\`${name}\``)])),
  ...Object.fromEntries(Object.entries(MEANINGS_OF_SETTINGS).map(([name, meaning]) => [name, meaningOf(meaning)])),
  ...DEFAULT_SCOPE,
  ...allMean("redis client redisclient url host connection", "`store: redisStore({ client })`"),
  memcached: "`store: memcachedStore({ client })`",
  ...allMean("sqlite path file", "`store: sqliteStore({ path })`"),
  ...allMean("keyprefix namespace name", "`prefix`"),
  ...allMean(
    "near nearcache l1 local localcache",
    "`memory: { maxStalenessMs }`, or leave it out: memory is on by default",
  ),
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

/** Options that are valid by themselves but not together. */
function combinationMistakes({ prefix }: CacheOptions, { store, codec, types }: ResolvedOptions): string[] {
  const mistakes: string[] = [];
  if (prefix === undefined && store !== undefined && store.isShared !== false)
    mistakes.push(
      `\`prefix\`: expected a name for this application, since any other one can use the same ${store.name} store and would share its entries, got undefined; pass createCache({ prefix: "shop" }) with a name of your own`,
    );
  if (types !== undefined && codec !== undefined && codec.withTypes === undefined)
    mistakes.push(
      "`types`: expected a codec with the method withTypes, got one without; encode these classes in your codec, or remove `codec`",
    );
  return mistakes;
}
