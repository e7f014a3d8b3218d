import DataLoader from "dataloader";
import type { Clock } from "../clock.js";
import { CachedError, describeSetting } from "../errors.js";
import type { KeySpace } from "../keys/key.js";
import {
  compilePolicy,
  GENERAL_SETTINGS,
  type Policy,
  type PolicySettings,
  settingsMistakes,
} from "../policy/policy.js";
import type { Channel } from "../telemetry/channel.js";
import type { ReadThrough } from "../tier/read-through.js";
import type { Answer, ReadRequest } from "../tier/request.js";
import { TickBatch } from "../tier/tick-batch.js";
import { identityOf } from "./identity.js";
import { settledOf } from "./request-loader.js";

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

/** A DataLoader with the shared tier behind it, for the life of one request. */
export interface CachedLoader<Id, Value> {
  /** Rejects with the batch function's own error. */
  load(id: Id): Promise<Value>;
  /** In the order and length of `ids`; an id that failed has its Error in its place. Never rejects. */
  loadMany(ids: ArrayLike<Id>): Promise<(Value | Error)[]>;
  /** Forgets what this request has read of `id`. */
  clear(id: Id): this;
  /** Forgets what this request has read. */
  clearAll(): this;
  /** Makes `value` what this request reads of `id`, unless it has read it already. Stores nothing. */
  prime(id: Id, value: Value | PromiseLike<Value> | Error): this;
}

/** What loaders are made with. */
export interface LoaderParts {
  readonly tier: ReadThrough;
  readonly keys: KeySpace;
  readonly channel: Channel;
  readonly clock: Clock;
  readonly profiles: Readonly<Record<string, PolicySettings>>;
  readonly defaults: PolicySettings;
  readonly identify: ((context: never) => unknown) | undefined;
  /** Where the loader says how its requests are made again, by its name. */
  readonly remakers: Map<string, (input: unknown, context: never) => ReadRequest>;
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
    const { requestOf, bypass } = requestsOf(context);
    return new RequestUserLoader(requestOf, bypass, name, parts);
  };
  parts.remakers.set(name, (id, context) => {
    const request = requestsOf(context).requestOf(id as Id);
    if (typeof request !== "string") return request;
    throw new CachedError("CACHED_KEY_UNUSABLE", `\`${name}\`: no key can be made of this id`, { coordinate: name });
  });

  const made = new WeakMap<object, CachedLoader<Id, Value>>();
  return (context) => {
    if (typeof context !== "object" || context === null) return make(context);
    const known = made.get(context) ?? make(context);
    made.set(context, known);
    return known;
  };
}

/** How one context's requests are made, and how its ids are loaded without the cache. */
function requestsWith<Id, Value, Context>(
  { name, batch, tags, cacheKeyFn, exists, maxBatchSize }: LoaderOptions<Id, Value, Context>,
  policy: Policy,
  parts: LoaderParts,
): (context: Context) => { requestOf(id: Id): Asked<Id>["request"]; bypass(id: Id): Promise<Value> } {
  const mayExist = existenceOf(exists, parts.clock);
  return (context) => {
    const source = new DataLoader<Id, Value, Id>((ids) => batch(ids, context), {
      cache: false,
      ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
    });
    const isPrivate = policy.scope === "PRIVATE";
    const identity = isPrivate ? identityOf(parts.identify, context) : undefined;
    const requestOf = (id: Id): Asked<Id>["request"] => {
      if (isPrivate && identity === undefined) return "NO_IDENTITY";
      try {
        const key = parts.keys.entry({
          kind: "loader",
          coordinate: name,
          identity,
          parts: cacheKeyFn === undefined ? id : cacheKeyFn(id),
        });
        const names = (tags?.(id) ?? []).map((tag) => parts.keys.tag(tag));
        const rule = tags === undefined ? "" : "tags";
        return {
          key,
          policy,
          tags: { rule, names, namesOf: undefined },
          load: () => source.load(id),
          ...(isPrivate ? {} : { input: () => id }),
          ...(mayExist === undefined ? {} : { mayExist: () => mayExist(id) }),
        };
      } catch {
        return "KEY_UNUSABLE";
      }
    };
    return { requestOf, bypass: (id: Id) => source.load(id) };
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

/** One id on its way: what is asked of the tier, or why nothing can be. */
interface Asked<Id> {
  readonly id: Id;
  readonly request: ReadRequest | "NO_IDENTITY" | "KEY_UNUSABLE";
}

class RequestUserLoader<Id, Value> implements CachedLoader<Id, Value> {
  readonly #loader: DataLoader<Asked<Id>, Answer, unknown>;
  readonly #requestOf: (id: Id) => Asked<Id>["request"];
  readonly #tier: ReadThrough;
  /** The keys that this request has read or was given: they stay what they were, whatever is near. */
  readonly #known = new Set<string>();

  constructor(
    requestOf: (id: Id) => Asked<Id>["request"],
    bypass: (id: Id) => Promise<Value>,
    coordinate: string,
    parts: LoaderParts,
  ) {
    this.#requestOf = requestOf;
    this.#tier = parts.tier;
    this.#loader = new DataLoader<Asked<Id>, Answer, unknown>(
      async (asked) => {
        const readable = asked.map(({ request }) => request).filter((request) => typeof request !== "string");
        const answers = await parts.tier.readMany(readable);
        const answerOf = new Map(readable.map((request, index) => [request, answers[index] as Answer]));
        return asked.map(({ id, request }): Answer => {
          if (typeof request !== "string") return answerOf.get(request) as Answer;
          parts.channel.publish({ name: "resolver.bypassed", coordinate, digest: "", reason: request });
          const promise = bypass(id);
          promise.catch(() => undefined);
          return { kind: "pending", promise };
        });
      },
      { cacheKeyFn: ({ id, request }) => (typeof request === "string" ? id : request.key.name) },
    );
  }

  async load(id: Id): Promise<Value> {
    const asked = this.#asked(id);
    const { request } = asked;
    if (typeof request !== "string" && !this.#known.has(request.key.name)) {
      const near = this.#tier.near(request);
      if (near !== undefined) return near.value as Value;
      this.#known.add(request.key.name);
    }
    return settledOf(await this.#loader.load(asked)) as Value;
  }

  loadMany(ids: ArrayLike<Id>): Promise<(Value | Error)[]> {
    const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
    return Promise.all(Array.from(ids, (id) => this.load(id).catch(asError)));
  }

  clear(id: Id): this {
    const asked = this.#asked(id);
    this.#loader.clear(asked);
    if (typeof asked.request !== "string") this.#known.delete(asked.request.key.name);
    return this;
  }

  clearAll(): this {
    this.#loader.clearAll();
    this.#known.clear();
    return this;
  }

  prime(id: Id, value: Value | PromiseLike<Value> | Error): this {
    const promise =
      value instanceof Error ? Promise.reject(value) : Promise.resolve(value as Value | PromiseLike<Value>);
    promise.catch(() => undefined);
    const asked = this.#asked(id);
    this.#loader.prime(asked, { kind: "pending", promise });
    if (typeof asked.request !== "string") this.#known.add(asked.request.key.name);
    return this;
  }

  #asked(id: Id): Asked<Id> {
    return { id, request: this.#requestOf(id) };
  }
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
