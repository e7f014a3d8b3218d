import { channel, type Channel as DiagnosticsChannel } from "node:diagnostics_channel";
import type { Cancel } from "../base/clock.js";
import { ignoreRejection } from "../base/deferred.js";
import type { CachedError } from "../base/errors.js";
import { getOrMake } from "../base/multimap.js";
import type { Counters } from "./counters.js";
import { errorTypeOf } from "./error-type.js";
import type { CacheEvent, FrequentEvent, Listener, ServedEvent, Subject } from "./events.js";
import { unrepeated } from "./log-listener.js";
import type { Tracing } from "./tracing.js";

/**
 * Counts events and delivers them to listeners and to the diagnostics channels of Node.js.
 * Listeners that throw or reject affect neither the cache nor each other; `reportFailure` gets the
 * first error.
 */
export class Channel {
  /** Undefined unless an adapter traces. A property, because hits read it. */
  tracing: Tracing | undefined = undefined;
  /** Those of Node.js that were used. It forgets a channel that nobody refers to. */
  readonly #diagnostics = new Map<string, DiagnosticsChannel>();
  readonly #served = this.#diagnosticsOf("entry.served");
  readonly #waitFinished = this.#diagnosticsOf("wait.finished");
  readonly storeFinished: { readonly hasSubscribers: boolean } = this.#diagnosticsOf("store.finished");
  readonly storeListeners: Listener[] = [];
  /** Those of all events but the frequent ones. */
  readonly #listeners: Listener[] = [];
  readonly #frequentListeners: Readonly<Record<FrequentEvent["name"], Listener[]>> = {
    "entry.served": [],
    "wait.finished": [],
    "store.finished": this.storeListeners,
  };
  readonly #reportFailure: (error: unknown) => void;
  readonly #isNewMistake = unrepeated();
  #hasOnEvent = false;

  constructor(
    private readonly counters?: Counters,
    readonly prefix = "",
    reportFailure: (error: unknown) => void = () => undefined,
  ) {
    let isReported = false;
    this.#reportFailure = (error) => {
      if (!isReported) reportFailure(error);
      isReported = true;
    };
  }

  /** `frequent`: which of those in `FrequentEvent` it gets. Default: all. Returns what ends it. */
  listen(listener: Listener, frequent?: readonly FrequentEvent["name"][]): Cancel {
    const byName = this.#frequentListeners;
    const lists = [this.#listeners, ...(frequent?.map((name) => byName[name]) ?? Object.values(byName))];
    for (const list of lists) list.push(listener);
    // Those of the library itself name what they get.
    if (frequent === undefined) this.#hasOnEvent = true;
    return () => {
      for (const list of lists) if (list.includes(listener)) list.splice(list.indexOf(listener), 1);
    };
  }

  /** Whether the application gets such events, by `onEvent` or by their diagnostics channel. */
  isHeard(event: CacheEvent["name"]): boolean {
    return this.#hasOnEvent || this.#diagnosticsOf(event).hasSubscribers;
  }

  publish(event: Exclude<CacheEvent, FrequentEvent>): void {
    this.counters?.count(event);
    this.#deliver(event, this.#listeners);
  }

  /** Every hit does, so the event is made, and the key read, only if it is listened to. */
  served(coordinate: string, key: Pick<Subject, "digest">, outcome: ServedEvent["outcome"]): void {
    this.counters?.countServed(coordinate, outcome);
    const listeners = this.#frequentListeners["entry.served"];
    if (listeners.length > 0 || this.#served.hasSubscribers)
      this.#deliver({ name: "entry.served", coordinate, digest: key.digest, outcome }, listeners);
  }

  /** Thousands may wait for one load, so the event is made only if it is listened to. */
  waited(coordinate: string, key: Pick<Subject, "digest">, waitMs: number, isLocal: boolean): void {
    const listeners = this.#frequentListeners["wait.finished"];
    if (listeners.length > 0 || this.#waitFinished.hasSubscribers)
      this.#deliver({ name: "wait.finished", coordinate, digest: key.digest, waitMs, isLocal }, listeners);
  }

  /** To be called only if it is listened to: see `storeListeners` and `storeFinished`. */
  finished(event: Extract<FrequentEvent, { name: "store.finished" }>): void {
    this.#deliver(event, this.storeListeners);
  }

  /** Publishes each message once. `coordinate`: null if the tag was passed to a call. */
  mistaken(coordinate: string | null, error: CachedError): void {
    if (this.#isNewMistake(error.message)) this.publish({ name: "tag.mistaken", coordinate, digest: "", error });
  }

  #deliver(event: CacheEvent, listeners: readonly Listener[]): void {
    for (const listener of [...listeners]) {
      try {
        ignoreRejection(listener(event), this.#reportFailure);
      } catch (error) {
        this.#reportFailure(error);
      }
    }
    const diagnostics = this.#diagnosticsOf(event.name);
    if (!diagnostics.hasSubscribers) return;
    // The errors of sources may contain user data.
    const { error, ...rest } = event as CacheEvent & { readonly error?: unknown };
    const errorType = error === undefined ? {} : { errorType: errorTypeOf(error) };
    diagnostics.publish({ prefix: this.prefix, ...rest, ...errorType });
  }

  #diagnosticsOf(event: CacheEvent["name"]): DiagnosticsChannel {
    return getOrMake(this.#diagnostics, event, () => channel(`graphql-cached.${event}`));
  }
}

export const subjectOf = ({ coordinate, digest }: Subject): Subject => ({ coordinate, digest });
