import { describeSetting } from "../base/errors.js";
import { type Meanings, unknownName } from "../base/option-names.js";

/**
 * Merges settings and converts seconds to milliseconds. `declared`: those of the field and of its
 * type, highest precedence first. `hinted`: what the cache hints of the schema say, with precedence
 * over the `defaults` only, which have `defaultScope` as their scope. `versions`: those of all
 * declared, as the one of a field must not hide that the one of its type has changed. `mistakes`:
 * those that show only after merging.
 */
export function compilePolicy(sources: {
  readonly declared: readonly (PolicySettings | undefined)[];
  readonly hinted?: PolicySettings | undefined;
  readonly defaults: PolicySettings;
}) {
  const mistakes: string[] = [];
  const declared = mergeSettings(...sources.declared);
  const settings = mergeSettings(declared, sources.hinted, sources.defaults);
  if (settings.maxAge === undefined)
    mistakes.push(
      "`maxAge`: expected an integer of at least 0 (seconds), got nothing; set it here or in createCache({ defaults })",
    );
  const maxAge = settings.maxAge ?? 0;
  if (settings.scope === undefined && settings.maxAge !== 0) mistakes.push(SCOPE_MISSING);
  const policy: Policy = {
    maxAgeMs: maxAge * 1000,
    staleWhileRevalidateMs: (settings.staleWhileRevalidate ?? 0) * 1000,
    refresh: settings.refresh ?? "BACKGROUND",
    neverExpires: settings.neverExpires ?? false,
    staleIfErrorMs: (settings.staleIfError ?? 0) * 1000,
    negativeMaxAgeMs: Math.min(settings.negativeMaxAge ?? NEGATIVE_MAX_AGE_SECONDS, maxAge) * 1000,
    maxAgeLimitMs: settings.maxAgeLimit === undefined ? undefined : Math.max(settings.maxAgeLimit, maxAge) * 1000,
    jitterRatio: settings.jitter ?? 0.1,
    earlyRefreshBeta: settings.earlyRefresh ?? 1,
    // Without one, nothing is cached.
    scope: settings.scope ?? "PUBLIC",
    readOnly: settings.readOnly ?? false,
    ...(declared.maxAge === undefined && sources.hinted?.maxAge !== undefined ? { followsHints: true } : {}),
    ...(sources.declared[0]?.scope === "PUBLIC" ? { isDeclaredPublic: true } : {}),
  };
  const versions = sources.declared.map((layer) => layer?.version ?? "");
  return { settings, policy, versions, mistakes };
}

/** What is private must not become everybody's because nobody has thought of it. (P8) */
export const SCOPE_MISSING =
  "`scope`: expected PUBLIC or PRIVATE, got nothing; set scope: PUBLIC if every caller gets the same value, scope: PRIVATE if not, or createCache({ defaultScope }) for all that say none";

/** The caching settings of a field, a type or a loader. Durations are whole seconds, as in SDL. */
export interface PolicySettings {
  readonly maxAge?: number;
  readonly maxAgeLimit?: number;
  readonly staleWhileRevalidate?: number;
  readonly refresh?: "BACKGROUND" | "FOREGROUND";
  readonly neverExpires?: boolean;
  readonly staleIfError?: number;
  readonly negativeMaxAge?: number;
  readonly jitter?: number;
  readonly earlyRefresh?: number;
  readonly scope?: "PUBLIC" | "PRIVATE";
  readonly readOnly?: boolean;
  readonly key?: readonly string[];
  readonly tags?: readonly string[];
  readonly version?: string;
}

/** The complete policy of one field or loader, with all defaults applied. */
export interface Policy {
  readonly maxAgeMs: number;
  readonly staleWhileRevalidateMs: number;
  readonly refresh: "BACKGROUND" | "FOREGROUND";
  readonly neverExpires: boolean;
  readonly staleIfErrorMs: number;
  readonly negativeMaxAgeMs: number;
  /** The longest `maxAge` that a load can set for its result. Undefined: that of the policy. */
  readonly maxAgeLimitMs?: number | undefined;
  readonly jitterRatio: number;
  readonly earlyRefreshBeta: number;
  readonly scope: "PUBLIC" | "PRIVATE";
  /** Whether readers share one frozen value instead of getting copies. */
  readonly readOnly?: boolean;
  /** Whether maxAge is that of a cache hint of the schema, which a hint of a load can shorten. */
  readonly followsHints?: boolean;
  /** Whether a field says itself that it is PUBLIC, whatever hints its load gives. */
  readonly isDeclaredPublic?: boolean;
}

type Check = (value: unknown) => string | undefined;

/** Short by default: what is asked for before it exists must be found soon. */
export const NEGATIVE_MAX_AGE_SECONDS = 10;

/** The largest 32-bit integer: what GraphQL's Int can hold. */
const MAX_SECONDS = 2_147_483_647;

const seconds: Check = (value) => {
  if (!Number.isInteger(value) || (value as number) < 0) return "an integer of at least 0 (seconds)";
  return (value as number) > MAX_SECONDS ? `an integer of at most ${MAX_SECONDS} (seconds)` : undefined;
};
const check =
  (what: string, isValid: (value: unknown) => boolean): Check =>
  (value) =>
    isValid(value) ? undefined : what;
const ratio = check("a number from 0 to 1", (value) => typeof value === "number" && value >= 0 && value <= 1);
const nonNegative = check("a number of at least 0", (value) => Number.isFinite(value) && (value as number) >= 0);
const flag = check("true or false", (value) => typeof value === "boolean");
const nonEmptyString = check("a non-empty string", (value) => typeof value === "string" && value !== "");
const strings = check(
  "an array of strings",
  (value) => Array.isArray(value) && value.every((member) => typeof member === "string"),
);
const oneOf = (...allowed: readonly string[]): Check =>
  check(allowed.map((name) => JSON.stringify(name)).join(" or "), (value) => allowed.includes(value as string));

const CHECKS: Readonly<Record<keyof PolicySettings, Check>> = {
  maxAge: seconds,
  maxAgeLimit: seconds,
  staleWhileRevalidate: seconds,
  refresh: oneOf("BACKGROUND", "FOREGROUND"),
  neverExpires: flag,
  staleIfError: seconds,
  negativeMaxAge: seconds,
  jitter: ratio,
  earlyRefresh: nonNegative,
  scope: oneOf("PUBLIC", "PRIVATE"),
  readOnly: flag,
  key: strings,
  tags: strings,
  version: nonEmptyString,
};

/** What other caches call a setting. */
export const MEANINGS: Meanings = {
  ...Object.fromEntries(
    ["ttl", "ttlms", "ttlseconds", "expires", "expiresin", "expiry", "expire", "duration", "lifetime", "cachefor"].map(
      (name) => [name, "`maxAge`, in seconds"],
    ),
  ),
  maxagems: "`maxAge`, in seconds",
  swr: "`staleWhileRevalidate`",
  stale: "`staleWhileRevalidate`",
  sie: "`staleIfError`",
  grace: "`staleIfError`",
  negativettl: "`negativeMaxAge`",
  private: '`scope: "PRIVATE"`',
  public: '`scope: "PUBLIC"`',
  frozen: "`readOnly`",
};

const settingsBut = (...others: readonly string[]): readonly string[] =>
  Object.keys(CHECKS).filter((setting) => !others.includes(setting));

/** The settings allowed in every policy that is written for one field, type or loader. */
export const GENERAL_SETTINGS = settingsBut("key", "tags", "version");

/** Those that can have a default for all. That of the scope is the option `defaultScope`. */
export const DEFAULT_SETTINGS = settingsBut("key", "tags", "version", "scope");

/**
 * Returns everything wrong with `settings` on their own, without their place, such as "`maxAge`:
 * expected an integer of at least 0 (seconds), got -1". `null` and undefined count as absent.
 */
export function settingsMistakes(
  settings: unknown,
  allowed: readonly string[] = Object.keys(CHECKS),
  meanings: Meanings = MEANINGS,
): string[] {
  if (typeof settings !== "object" || settings === null || Array.isArray(settings))
    return [`expected an object of policy settings, got ${describeSetting(settings)}`];
  const mistakes: string[] = [];
  for (const [setting, value] of Object.entries(settings)) {
    if (!allowed.includes(setting)) {
      mistakes.push(unknownName(setting, { kind: "setting", known: allowed, meanings }));
      continue;
    }
    const expected = isAbsent(value) ? undefined : CHECKS[setting as keyof PolicySettings](value);
    if (expected !== undefined) mistakes.push(`\`${setting}\`: expected ${expected}, got ${describeSetting(value)}`);
  }
  return mistakes;
}

/**
 * Returns what is wrong with valid settings that are written together. One of another layer yields:
 * a negativeMaxAge to a shorter maxAge, and a maxAgeLimit to a longer one.
 */
export function contradictions(settings: PolicySettings): string[] {
  const { maxAge, negativeMaxAge, maxAgeLimit } = mergeSettings(settings);
  const mistakes: string[] = [];
  if (maxAge === undefined) return mistakes;
  if (negativeMaxAge !== undefined && negativeMaxAge > maxAge)
    mistakes.push(`\`negativeMaxAge\`: expected an integer of at most \`maxAge\` (${maxAge}), got ${negativeMaxAge}`);
  if (maxAgeLimit !== undefined && maxAge === 0)
    mistakes.push(
      `\`maxAgeLimit\`: expected nothing with \`maxAge: 0\`, which turns caching off, got ${maxAgeLimit}; set \`maxAge\` to at least 1`,
    );
  else if (maxAgeLimit !== undefined && maxAgeLimit < maxAge)
    mistakes.push(`\`maxAgeLimit\`: expected an integer of at least \`maxAge\` (${maxAge}), got ${maxAgeLimit}`);
  return mistakes;
}

const isAbsent = (value: unknown): boolean => value === undefined || value === null;

/** The first layer that sets a setting wins. `null` and undefined count as absent. */
export function mergeSettings(...layers: readonly (PolicySettings | undefined)[]): PolicySettings {
  const merged: Record<string, unknown> = {};
  for (const layer of layers)
    for (const [setting, value] of Object.entries(layer ?? {}))
      if (!isAbsent(value) && !(setting in merged)) merged[setting] = value;
  return merged as PolicySettings;
}

/**
 * Returns what to say about durations that were probably written in milliseconds: thousands that
 * are neither whole hours of at most three days nor whole days. They are valid.
 */
export function secondsDoubts(settings: unknown): string[] {
  if (typeof settings !== "object" || settings === null) return [];
  return Object.entries(CHECKS).flatMap(([setting, check]) => {
    const given = (settings as Readonly<Record<string, unknown>>)[setting] as number;
    if (check !== seconds || !Number.isSafeInteger(given) || !looksLikeMilliseconds(given)) return [];
    const days = given / 86_400;
    const shown = days < 1 ? `${Math.round(days * 240) / 10} hours` : `${Math.round(days * 10) / 10} days`;
    return `\`${setting}\` is in seconds, and ${given} are ${shown}; did you mean ${given / 1000}?`;
  });
}

function looksLikeMilliseconds(seconds: number): boolean {
  if (seconds < 10_000 || seconds % 1_000 !== 0) return false;
  // A day in milliseconds, which is also 1,000 days.
  if (seconds % 86_400_000 === 0) return true;
  return seconds % (seconds <= 259_200 ? 3_600 : 86_400) !== 0;
}

/**
 * Shortens a freshness lifetime by a random share of at most `ratio`, so that entries stored
 * together do not expire together. It never lengthens: a value is not served as fresh for longer
 * than its `maxAge`.
 * Source: M. Brooker, "Timeouts, retries, and backoff with jitter", AWS Builders' Library.
 */
export function jittered(maxAgeMs: number, ratio: number, random: number): number {
  return Math.round(maxAgeMs * (1 - ratio * random));
}
