import DataLoader from "dataloader";
import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.js";
import { CachedError, describeSetting } from "../errors.js";
import type { Key, KeySpace } from "../keys/key.js";
import {
  compilePolicy,
  GENERAL_SETTINGS,
  type Policy,
  type PolicySettings,
  settingsMistakes,
} from "../policy/policy.js";
import type { Channel } from "../telemetry/channel.js";
import type { ReadThrough } from "../tier/read-through.js";
import type { ReadRequest, RequestTags } from "../tier/request.js";
import { TickBatch } from "../tier/tick-batch.js";
import type { ContextWatch } from "./context-watch.js";
import { type Identity, identityOf, loadPrivate } from "./identity.js";
import type { RequestScopes } from "./request-scope.js";
import { type CachedLoader, type IdRequests, RequestUserLoader } from "./request-user-loader.js";

/** What `cache.loader` takes: a name, a batch function, and a policy in seconds. */
export interface LoaderOptions<Id, Value, Context> extends Omit<PolicySettings, "key" | "tags"> {
  /** Names the loader's entries, in all processes. A GraphQL name. */
  readonly name: string;
  /** Loads `ids`, in their order and length; an Error in a value's place fails that id alone. Gets the ids that this process has to load, together. */
  readonly batch: (ids: readonly Id[], context: Context) => PromiseLike<ArrayLike<Value | Error>>;
  /** The tags of one id. */
  readonly tags?: (id: Id) => readonly string[];
  /** What identifies an id; needed where it is more than plain data. */
  readonly cacheKeyFn?: (id: Id) => unknown;
  /**
   * Knows which ids cannot exist, such as a `bloomGuard`: they are null, and neither the store nor the source is troubled with them. Asked for
   * ids of which nothing is stored, in one call a tick; it answers in their order, in reasonable time, and true where it does not know.
   */
  readonly exists?: { has(ids: readonly Id[]): PromiseLike<readonly boolean[]> };
  /** The most ids that one call of `batch` gets. */
  readonly maxBatchSize?: number;
}

/** What loaders are made with. */
export interface LoaderParts {
  readonly tier: ReadThrough;
  readonly keys: KeySpace;
  readonly scopes: RequestScopes;
  readonly channel: Channel;
  readonly clock: Clock;
  readonly profiles: Readonly<Record<string, PolicySettings>>;
  readonly defaults: PolicySettings;
  readonly identify: ((context: never) => unknown) | undefined;
  readonly contextWatch: ContextWatch | undefined;
  /** Where the loader says how its requests are made again, by its name. */
  readonly requestFactories: Map<string, (input: unknown, context: never) => ReadRequest>;
}

const OWN_OPTIONS = ["name", "batch", "cacheKeyFn", "exists", "maxBatchSize"];

/**
 * Makes a user's batch function a loader with the shared tier behind it. The answer is a function from a request's context to its loader;
 * without a context object every call makes a new one.
 * Errors: `CACHED_OPTION_INVALID`, with all mistakes at once.
 */
export function userLoader<Id, Value, Context>(
  options: LoaderOptions<Id, Value, Context>,
  parts: LoaderParts,
): (context: Context) => CachedLoader<Id, Value> {
  const {
    name,
    batch: _batch,
    tags: _tags,
    cacheKeyFn: _keys,
    exists: _exists,
    maxBatchSize: _most,
    ...settings
  } = options;
  const { policy, mistakes } = compilePolicy({ said: [settings], profiles: parts.profiles, defaults: parts.defaults });
  const all = [...loaderMistakes(options, policy.scope === "PRIVATE" && parts.identify === undefined), ...mistakes];
  if (all.length > 0)
    throw new CachedError("CACHED_OPTION_INVALID", `cache.loader: ${all.join("; ")}`, { coordinate: String(name) });

  const requestsOf = requestsWith(options, policy, parts);
  const make = (context: Context): CachedLoader<Id, Value> => {
    return new RequestUserLoader(requestsOf(context), name, parts.tier, parts.channel);
  };
  parts.requestFactories.set(name, (id, context) => {
    const request = requestsOf(context).requestOf(id as Id);
    if (typeof request !== "string") return request;
    throw new CachedError("CACHED_KEY_UNUSABLE", `\`${name}\`: no key can be made of this id`, { coordinate: name });
  });

  return perContext(make);
}

/**
 * One loader a context. It rests on the context itself, under a symbol: a WeakMap of contexts, one for each request, keeps the garbage collector
 * busy. A copy of a context brings the symbol along, so the loader says whose it is.
 */
function perContext<Context, Loader>(make: (context: Context) => Loader): (context: Context) => Loader {
  const mine = Symbol("graphql-cached.loader");
  const elsewhere = new WeakMap<object, Loader>();
  return (context) => {
    if (typeof context !== "object" || context === null) return make(context);
    const holder = context as { [mine]?: { readonly of: object; readonly loader: Loader } };
    const known = holder[mine];
    if (known !== undefined && known.of === context) return known.loader;
    const loader = elsewhere.get(context) ?? make(context);
    if (Object.isExtensible(context)) holder[mine] = { of: context, loader };
    else elsewhere.set(context, loader);
    return loader;
  };
}

/** One id's request; what one context's requests have in common is in `own`. */
class IdRequest<Id> implements ReadRequest {
  readonly key: Key;
  readonly policy: Policy;
  readonly tags: RequestTags;
  readonly isForced: boolean;
  readonly id: Id;
  readonly input: (() => Id) | undefined;
  readonly mayExist: (() => Promise<boolean>) | undefined;
  readonly #load: (id: Id) => Promise<unknown>;

  constructor(
    id: Id,
    key: Key,
    tags: RequestTags,
    isForced: boolean,
    own: {
      readonly policy: Policy;
      readonly load: (id: Id) => Promise<unknown>;
      readonly guard: ((id: Id) => Promise<boolean>) | undefined;
    },
  ) {
    this.id = id;
    this.key = key;
    this.tags = tags;
    this.isForced = isForced;
    this.policy = own.policy;
    this.#load = own.load;
    const { guard } = own;
    this.input = own.policy.scope === "PRIVATE" ? undefined : inputOf;
    this.mayExist = guard === undefined ? undefined : () => guard(id);
  }

  load(): Promise<unknown> {
    return this.#load(this.id);
  }
}

function inputOf<Id>(this: IdRequest<Id>): Id {
  return this.id;
}

/** The keys of ids asked for lately, which cost a hash each to make: of plain public ids only, and of short ones. */
const MAX_KNOWN_KEYS = 2_000;
const MAX_KNOWN_LENGTH = 256;

const NO_TAGS: RequestTags = { rule: "", names: [], namesOf: undefined };

/** How one context's requests are made, and how its ids are loaded without the cache. */
function requestsWith<Id, Value, Context>(
  { name, batch, tags, cacheKeyFn, exists, maxBatchSize }: LoaderOptions<Id, Value, Context>,
  policy: Policy,
  parts: LoaderParts,
): (context: Context) => IdRequests<Id, Value> {
  const guard = existenceOf(exists, parts.clock);
  const isPrivate = policy.scope === "PRIVATE";
  const { contextWatch: watch } = parts;
  const load: typeof batch =
    isPrivate || watch === undefined
      ? batch
      : (ids, context) => watch.run(name, [], context, () => batch(ids, context));
  const known = new LRUCache<string | number, Key>({ max: MAX_KNOWN_KEYS });
  const keyOf = (id: Id, identity: Identity | undefined): Key => {
    const keyParts = cacheKeyFn === undefined ? id : cacheKeyFn(id);
    const isPlain = typeof keyParts === "string" || (typeof keyParts === "number" && !Object.is(keyParts, -0));
    const found = isPlain && identity === undefined ? known.get(keyParts) : undefined;
    if (found !== undefined) return found;
    const key = parts.keys.entry({ kind: "loader", coordinate: name, identity, parts: keyParts });
    if (isPlain && identity === undefined && key.input.length <= MAX_KNOWN_LENGTH) known.set(keyParts, key);
    return key;
  };
  return (context) => {
    const options = { cache: false, ...(maxBatchSize === undefined ? {} : { maxBatchSize }) };
    const source = new DataLoader<Id, Value, Id>((ids) => load(ids, context), options);
    const common = { policy, guard, load: (id: Id): Promise<unknown> => source.load(id) };
    const { identify } = parts;
    return {
      requestOf: (id) => {
        const override = parts.scopes.overrideOf(context);
        if (override === "BYPASS") return "REQUESTED";
        // Asked each time: a context that two requests share may say somebody else by now.
        const identity = isPrivate ? identityOf(identify, context) : undefined;
        if (isPrivate && identity === undefined) return "NO_IDENTITY";
        try {
          const key = keyOf(id, identity);
          const asked = { coordinate: name, identity, identify, context };
          const own = isPrivate ? { ...common, load: (one: Id) => loadPrivate(asked, () => source.load(one)) } : common;
          const forced = override === "REFRESH";
          if (tags === undefined) return new IdRequest(id, key, NO_TAGS, forced, own);
          const names = tags(id).map((tag) => parts.keys.tag(tag));
          return new IdRequest(id, key, { rule: "tags", names, namesOf: undefined }, forced, own);
        } catch {
          return "KEY_UNUSABLE";
        }
      },
      bypass: (id) => source.load(id),
    };
  };
}

/** Asks a guard, once a tick for all ids of it. A guard that fails, or leaves an id out, says nothing about what exists. */
function existenceOf<Id>(
  guard: { has(ids: readonly Id[]): PromiseLike<readonly boolean[]> } | undefined,
  clock: Clock,
): ((id: Id) => Promise<boolean>) | undefined {
  if (guard === undefined) return undefined;
  const asked = new TickBatch<Id, boolean>(clock, async (ids) => guard.has(ids));
  return (id) =>
    asked.add(id).then(
      (answer) => answer !== false,
      () => true,
    );
}

function loaderMistakes(options: Readonly<Record<string, unknown>> | object, lacksIdentify: boolean): string[] {
  const { name, batch, tags, cacheKeyFn, exists, maxBatchSize, ...settings } = options as Readonly<
    Record<string, unknown>
  >;
  const mistakes = settingsMistakes(settings, [...GENERAL_SETTINGS, "profile", "tags", ...OWN_OPTIONS]);
  if (typeof name !== "string" || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
    mistakes.push(`\`name\` must be a GraphQL name, ${describeSetting(name)} came`);
  if (typeof batch !== "function") mistakes.push(`\`batch\` must be a function, ${describeSetting(batch)} came`);
  for (const [option, value] of Object.entries({ tags, cacheKeyFn }))
    if (value !== undefined && typeof value !== "function")
      mistakes.push(`\`${option}\` must be a function, ${describeSetting(value)} came`);
  if (exists !== undefined && typeof (exists as { has?: unknown } | null)?.has !== "function")
    mistakes.push(`\`exists\` must be an object with a method has, ${describeSetting(exists)} came`);
  if (maxBatchSize !== undefined && (!Number.isInteger(maxBatchSize) || (maxBatchSize as number) < 1))
    mistakes.push(`\`maxBatchSize\` must be a whole number, 1 or more, ${describeSetting(maxBatchSize)} came`);
  if (lacksIdentify) mistakes.push("scope PRIVATE needs createCache({ identify })");
  return mistakes;
}
