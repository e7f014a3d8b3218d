import type { Cancel } from "../../core/base/clock.js";

/** The events of a client, with what they are told with. */
export interface ClientEvent {
  error: [error: Error];
  /** It begins to connect, for the first time or again. */
  connecting: [];
  /** It is connected. */
  ready: [];
  /** It was closed, or has given up. */
  end: [];
  /** A node of a Cluster cannot be reached. */
  nodeError: [error: Error, node: string];
}

type Name = keyof ClientEvent;
type Listener<Event extends Name> = (...event: ClientEvent[Event]) => void;

/** Has the client deliver an event, until what it returns is called. */
export type StartEvent = <Event extends Name>(event: Event, deliver: Listener<Event>) => Cancel;

/**
 * The events of a client, with one listener on the client for each event, however many stores and connections listen: an
 * EventEmitter warns about more than ten.
 */
export class ClientEvents {
  readonly #start: StartEvent;
  readonly #listeners = new Map<Name, Set<Listener<Name>>>();
  readonly #stops = new Map<Name, Cancel>();

  constructor(start: StartEvent) {
    this.#start = start;
  }

  /** Calls `listener` with each event, after those that listen already. Returns a function that ends that. */
  listen<Event extends Name>(event: Event, listener: Listener<Event>): Cancel {
    // A function of its own, so that a listener can be there twice.
    const own = ((...args: ClientEvent[Event]) => listener(...args)) as Listener<Name>;
    const listeners = this.#listeners.get(event) ?? this.#startEvent(event);
    listeners.add(own);
    return () => {
      if (!listeners.delete(own) || listeners.size > 0) return;
      this.#stops.get(event)?.();
      this.#listeners.delete(event);
    };
  }

  /** Delivers an event to those that listen. */
  emit<Event extends Name>(event: Event, ...args: ClientEvent[Event]): void {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) (listener as Listener<Event>)(...args);
  }

  #startEvent(event: Name): Set<Listener<Name>> {
    const listeners = new Set<Listener<Name>>();
    this.#listeners.set(event, listeners);
    this.#stops.set(
      event,
      this.#start(event, (...args) => this.emit(event, ...args)),
    );
    return listeners;
  }
}
