import type { Cancel } from "../clock.js";
import type { ClientEvent, RedisClient } from "./redis-client.js";

type Listener = (argument: never, more: never) => void;

/**
 * The events of a client, with one listener on the client for each event, however many stores and connections listen: an
 * EventEmitter warns about more than ten.
 */
export class ClientEvents {
  readonly #client: RedisClient;
  readonly #listeners = new Map<ClientEvent, Set<Listener>>();
  readonly #stops = new Map<ClientEvent, Cancel>();

  constructor(client: RedisClient) {
    this.#client = client;
  }

  /** Calls `listener` with each event, after those that listen already. Returns a function that ends that. */
  listen(event: ClientEvent, listener: Listener): Cancel {
    // A function of its own, so that a listener can be there twice.
    const own: Listener = (...event) => listener(...event);
    const listeners = this.#listeners.get(event) ?? this.#start(event);
    listeners.add(own);
    return () => {
      if (!listeners.delete(own) || listeners.size > 0) return;
      this.#stops.get(event)?.();
      this.#listeners.delete(event);
    };
  }

  #start(event: ClientEvent): Set<Listener> {
    const listeners = new Set<Listener>();
    // Other events have other arguments.
    const deliver = ((...event: Parameters<Listener>): void => {
      for (const listener of [...listeners]) listener(...event);
    }) as (error: Error) => void;
    this.#client.on(event, deliver);
    this.#stops.set(event, () => this.#client.off(event, deliver));
    this.#listeners.set(event, listeners);
    return listeners;
  }
}
