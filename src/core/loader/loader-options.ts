import { describeSetting } from "../base/errors.js";
import type { Meanings } from "../base/option-names.js";
import { type Key, RESPONSES, type Variant } from "../keys/key.js";
import { GENERAL_SETTINGS, MEANINGS, type Policy, type PolicySettings, settingsMistakes } from "../policy/policy.js";
import type { BypassReason, ReadOutcome } from "../telemetry/events.js";
import type { ResultControl } from "../tier/request/result-control.js";
import type { ExistenceGuard } from "./existence.js";
import type { Identity } from "./identity.js";

/** A DataLoader of one request, backed by the shared tier. */
export interface CachedLoader<Id, Value> {
  readonly name: string;
  /** Rejects with the error of the batch function. Throws a TypeError for null and undefined. */
  load(id: Id): Promise<Value>;
  /**
   * Returns the values in the order of `ids`, with an Error in the place of each id that failed.
   * Never rejects. Throws a TypeError if `ids` is no array, or contains null or undefined.
   */
  loadMany(ids: ArrayLike<Id>): Promise<(Value | Error)[]>;
  /** Loads as `load` does, and says how. */
  read(id: Id): Promise<CachedRead<Value>>;
  /** Forgets what was read for `id`. After an error, the next `load` asks the source again. */
  clear(id: Id): this;
  /** Forgets everything this request has read. */
  clearAll(): this;
  /**
   * Makes `value` the result for `id` in this request, unless the request has already read it. A
   * value that is in memory does not count as read. Stores nothing.
   */
  prime(id: Id, value: Value | PromiseLike<Value> | Error): this;
}

/** A value, and how it was read. */
export interface CachedRead<Value> {
  readonly value: Value;
  /** `remembered`: the request had read it before, or has primed it. */
  readonly outcome: ReadOutcome | "remembered";
  /** How long ago its load began. Undefined if it is remembered, or was read without the cache. */
  readonly ageMs: number | undefined;
  /** Why it was read without the cache. Undefined if it was not, or if `maxAge` is 0. */
  readonly reason: BypassReason | undefined;
}

/** What belongs to one call of a batch function. */
export interface BatchCall {
  /**
   * Aborts when no request waits for any of the ids any more. To be passed to the source, instead
   * of the signal of the request, which is not the only one that waits.
   */
  readonly signal: AbortSignal;
  /** Controls how the result of each id is cached, in the order of the ids. */
  readonly results: readonly ResultControl[];
}

/** The options of `cache.loader`: a name, a batch function, and policy settings in seconds. */
export interface LoaderOptions<Id, Value, Context> extends Omit<PolicySettings, "key" | "tags"> {
  /** Names the loader's entries in all processes: letters, digits and any of `_`, `:` and `-`. */
  readonly name: string;
  /**
   * Loads `ids` and returns the values in the same order and number. An Error in the place of a
   * value fails that id only. Called with the ids of one tick that this process has to load, and
   * with the loader of the request as `this`.
   */
  readonly batch: (ids: readonly Id[], context: Context, call: BatchCall) => PromiseLike<ArrayLike<Value | Error>>;
  /** Returns the tags of one id. */
  readonly tags?: (id: Id) => readonly string[];
  /** Returns the key of an id. Required unless ids are plain data, or of `types` with `keyOf`. */
  readonly cacheKeyFn?: (id: Id) => unknown;
  /**
   * Knows which ids cannot exist, for example a `bloomGuard`. Such ids resolve to null without a
   * load, and nothing is stored for them. Called once per tick with the ids that have no entry;
   * returns one boolean per id, in order, and true if it does not know.
   */
  readonly exists?: ExistenceGuard<Id>;
  /** The maximum number of ids per call of `batch`. Default: no limit. */
  readonly maxBatchSize?: number;
  /**
   * Whether a request remembers what it has read. False: each `load` asks the shared cache again,
   * and `prime` has no effect. Default: true.
   */
  readonly cache?: boolean;
  /**
   * The GraphQL type of the values. A release in which the type has another shape keeps entries of
   * its own. Default: none; then set `version`, and change it whenever the values change.
   */
  readonly type?: string;
}

/** What tells `cache.loader` from `cache.wrap` in checks and messages. */
export interface LoaderKind {
  readonly caller: string;
  readonly noun: "loader" | "function";
  readonly load: string;
  readonly key: string;
  /** What the user's functions get, in words. */
  readonly input: string;
  /** The options besides the policy, each with a check that returns what was expected. */
  readonly options: Readonly<Record<string, OptionCheck>>;
  readonly identifyMissing: string;
}

type OptionCheck = (value: unknown) => string | undefined;
type OwnOption = "tags" | Exclude<keyof LoaderOptions<never, never, never>, keyof PolicySettings>;

export const aFunction = (value: unknown): string | undefined =>
  typeof value === "function" ? undefined : "a function";

/** The options that loaders and functions have in common. */
export const COMMON_OPTIONS = {
  // Entries are found, and counted, by this name or by that of a field, which has a dot; what
  // follows it in keys has a fixed length.
  name(value) {
    if (value === RESPONSES) return `another name, since that of whole responses is \`${RESPONSES}\``;
    const isValid = typeof value === "string" && /^[\w:-]+$/.test(value);
    return isValid ? undefined : "letters, digits and any of _ : - (a dot is for fields)";
  },
  type: (value) => (typeof value === "string" && value !== "" ? undefined : "the name of a GraphQL type"),
} satisfies Readonly<Record<string, OptionCheck>>;

const OWN_OPTIONS: Readonly<Record<OwnOption, OptionCheck>> = {
  ...COMMON_OPTIONS,
  batch: aFunction,
  tags: aFunction,
  cacheKeyFn: aFunction,
  exists: (value) =>
    typeof (value as { readonly has?: unknown } | null)?.has === "function"
      ? undefined
      : "an object with the method has",
  maxBatchSize: (value) => (Number.isInteger(value) && (value as number) >= 1 ? undefined : "an integer of at least 1"),
  cache: (value) =>
    typeof value === "boolean" ? undefined : "true or false, whether a request remembers what it has read",
};
/** What other loaders and caches call the options that load and that make keys. */
const NAMES_OF_LOAD = "batch batchfn batchloadfn fetch fetcher fn func function getfreshvalue load loadmany resolve";
const NAMES_OF_KEY = "args cachekey cachekeyfn generatekey key keyfn keyof resolver";

const meaningsOf = ({ load, key }: LoaderKind): Meanings => ({
  ...MEANINGS,
  ...Object.fromEntries(NAMES_OF_LOAD.split(" ").map((one) => [one, `\`${load}\``])),
  ...Object.fromEntries(NAMES_OF_KEY.split(" ").map((one) => [one, `\`${key}\``])),
});

export const LOADER: LoaderKind = {
  caller: "cache.loader",
  noun: "loader",
  load: "batch",
  key: "cacheKeyFn",
  input: "id",
  options: OWN_OPTIONS,
  identifyMissing: "the `identify` option; pass createCache({ identify: (context) => context.userId })",
};

export const policySettingsOf = (options: object, kind: LoaderKind): PolicySettings =>
  Object.fromEntries(Object.entries(options).filter(([option]) => !Object.hasOwn(kind.options, option)));

export function settingMistakes(given: object, kind: LoaderKind): string[] {
  const { cacheMap, ...others } = given as Readonly<Record<string, unknown>>;
  const settings = kind === LOADER ? others : given;
  const known = [...GENERAL_SETTINGS, "version", ...Object.keys(kind.options)];
  const mistakes = settingsMistakes(settings, known, meaningsOf(kind));
  if (settings === others && cacheMap !== undefined)
    mistakes.push(
      `\`cacheMap\`: expected no such option, since the shared cache holds the values, got ${describeSetting(cacheMap)}; use \`cache: false\` for requests that remember nothing`,
    );
  return mistakes;
}

export function ownMistakes(options: object, kind: LoaderKind): string[] {
  return Object.entries(kind.options).flatMap(([option, check]) => {
    const value = (options as Readonly<Record<string, unknown>>)[option];
    if (value === undefined && option !== "name" && option !== kind.load) return [];
    const expected = check(value);
    if (expected === undefined) return [];
    const remedy = option === "batch" && value === false ? "; use `maxBatchSize: 1` for calls with one id each" : "";
    return [`\`${option}\`: expected ${expected}, got ${describeSetting(value)}${remedy}`];
  });
}

export const placeOf = (name: unknown, { caller }: Pick<LoaderKind, "caller">): string =>
  typeof name === "string" ? `${caller}(${JSON.stringify(name)})` : caller;

/** What is known of a loader outside of a request. */
export interface LoaderRule {
  readonly name: string;
  /** Whether it has replaced another one, outside of production. */
  readonly isReplacement: boolean;
  /** The function that loads: a second loader of the name with another one is a mistake. */
  readonly given: unknown;
  readonly kind: LoaderKind;
  readonly policy: Policy;
  readonly settings: PolicySettings;
  /** Throws `CACHED_OPTION_INVALID` if the shape of the type is not known yet. */
  variantOf(): Variant;
  /** Returns why an id that has a key may not be the one that is meant. */
  doubtOf(id: unknown): string | undefined;
  /** Throws what the option `tags` throws. */
  tagTextsOf(id: unknown): readonly string[];
  /** Throws what `cacheKeyFn` and `variantOf` throw, and `CACHED_KEY_UNSERIALIZABLE`. */
  keyOf(id: unknown, identity: Identity | undefined): Key;
}
