import DataLoader from "dataloader";
import type { Channel } from "../telemetry/channel.js";
import type { ReadThrough } from "../tier/read-through.js";
import type { ReadRequest } from "../tier/request.js";

/** A DataLoader with the shared tier behind it, for the logId of one request. */
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

/** Why an id is not read in the cache. */
type Unread = "NO_IDENTITY" | "KEY_UNUSABLE" | "REQUESTED";

/** How the requests of one context are made, or why none can be; and how an id is loaded without the cache. */
export interface IdRequests<Id, Value> {
  requestOf(id: Id): ReadRequest | Unread;
  bypass(id: Id): Promise<Value>;
}

/** One id on its way: what is asked of the tier, or why nothing can be. */
interface Asked<Id> {
  readonly id: Id;
  readonly request: ReadRequest | Unread;
}

/** The loader of one name in one request. */
export class RequestUserLoader<Id, Value> implements CachedLoader<Id, Value> {
  readonly #loader: DataLoader<Asked<Id>, unknown, unknown>;
  readonly #requests: IdRequests<Id, Value>;
  readonly #tier: ReadThrough;
  readonly #channel: Channel;
  readonly #coordinate: string;
  /** The keys that this request has read or was given: they stay what they were, whatever is near. */
  readonly #known = new Set<string>();

  constructor(requests: IdRequests<Id, Value>, coordinate: string, tier: ReadThrough, channel: Channel) {
    this.#requests = requests;
    this.#coordinate = coordinate;
    this.#tier = tier;
    this.#channel = channel;
    this.#loader = new DataLoader<Asked<Id>, unknown, unknown>((asked) => this.#read(asked), { cacheKeyFn: memoKeyOf });
  }

  load(id: Id): Promise<Value> {
    const asked = this.#asked(id);
    const near = this.#tier.hasNear ? this.#near(asked.request) : undefined;
    return near === undefined ? (this.#loader.load(asked) as Promise<Value>) : Promise.resolve(near.value as Value);
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
    const asked = this.#asked(id);
    this.#loader.prime(asked, value as Value | Error);
    if (typeof asked.request !== "string") this.#known.add(asked.request.key.name);
    return this;
  }

  async #read(asked: readonly Asked<Id>[]): Promise<readonly unknown[]> {
    const readable = asked.map(({ request }) => request).filter((request) => typeof request !== "string");
    const answers = await this.#tier.readMany(readable);
    if (readable.length === asked.length) return answers;
    let read = 0;
    return asked.map(({ id, request }) => (typeof request === "string" ? this.#bypass(id, request) : answers[read++]));
  }

  #bypass(id: Id, reason: Unread): Promise<Value> {
    this.#channel.publish({ name: "resolver.bypassed", coordinate: this.#coordinate, digest: "", reason });
    const promise = this.#requests.bypass(id);
    promise.catch(() => undefined);
    return promise;
  }

  #near(request: Asked<Id>["request"]): { readonly value: unknown } | undefined {
    if (typeof request === "string" || this.#known.has(request.key.name)) return undefined;
    const near = this.#tier.near(request);
    if (near === undefined) this.#known.add(request.key.name);
    return near;
  }

  #asked(id: Id): Asked<Id> {
    return { id, request: this.#requests.requestOf(id) };
  }
}

const memoKeyOf = ({ id, request }: Asked<unknown>): unknown => (typeof request === "string" ? id : request.key.name);
