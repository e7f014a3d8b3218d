import type { Clock } from "../base/clock.js";
import { errorTypeOf } from "./error-type.js";
import type { CacheEvent } from "./events.js";

/**
 * Keeps the last 100 different events that report trouble, or its end. What happens for every hit or every load is
 * not kept, so that a cache that works costs nothing.
 */
export class RecentEvents {
  readonly #clock: Clock;
  /** By what makes them equal; the one that was reported last comes last. */
  readonly #events = new Map<string, RecentEvent>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A listener for all events but `entry.served`. */
  readonly record = (event: CacheEvent): void => {
    // Bypasses are trouble if there is a mistake to correct.
    const isMistake = event.name === "resolver.bypassed" && event.error !== undefined;
    const isRefusal = event.name === "write.finished" && !event.isStored;
    if (!KEPT.has(event.name) && !isMistake && !isRefusal) return;
    const { name, coordinate, digest, node } = event as Partial<Record<string, string>>;
    const detail = detailOf(event);
    const error = "error" in event ? errorTypeOf(event.error) : undefined;
    const identity = [name, coordinate, node, detail, error].join("\n");
    const earlier = this.#events.get(identity);
    const at = this.#clock.now();
    this.#events.delete(identity);
    this.#events.set(identity, {
      name: event.name,
      at,
      firstAt: earlier?.firstAt ?? at,
      count: (earlier?.count ?? 0) + 1,
      coordinate,
      digest: digest || undefined,
      node,
      detail,
      error,
    });
    if (this.#events.size > MAX_EVENTS) this.#events.delete(this.#events.keys().next().value as string);
  };

  /** At most `max` events, the one that was reported last first. */
  newest(max: number): RecentEvent[] {
    return [...this.#events.values()].reverse().slice(0, max);
  }
}

/**
 * Trouble that was reported lately. Equal events of one field, loader or node are one, with a count. Contains no user
 * data: of an error that the source has thrown it has only the code or class.
 */
export interface RecentEvent {
  readonly name: CacheEvent["name"];
  /** When it was last reported, on the clock of this process. */
  readonly at: number;
  readonly firstAt: number;
  readonly count: number;
  /** The field or loader. Undefined: it concerns the store or the whole cache. */
  readonly coordinate: string | undefined;
  /** The digest of the key that it last concerned. */
  readonly digest: string | undefined;
  /** The node of the store; empty if the store is one node. */
  readonly node: string | undefined;
  /** The operation of the store, the reason of the bypass, the property of the context, or the mode. */
  readonly detail: string | undefined;
  /** The code of the error, or the name of its class if it has none. */
  readonly error: string | undefined;
}

/** How many different events are kept. */
const MAX_EVENTS = 100;

/** The events that are kept in any case. One that is published for every read, load or operation must not be among them. */
const KEPT: ReadonlySet<CacheEvent["name"]> = new Set<CacheEvent["name"]>([
  "load.failed",
  "load.refused",
  "sharing.suspended",
  "lifetime.refused",
  "signal.refused",
  "value.refused",
  "entry.corrupt",
  "lease.lost",
  "context.read",
  "selection.read",
  "tag.mistaken",
  "refresh.rejected",
  "store.failed",
  "store.recovered",
  "connection.failed",
  "connection.recovered",
  "invalidations.overflowed",
]);

function detailOf(event: CacheEvent): string | undefined {
  if ("operation" in event) return event.operation;
  if ("use" in event) return event.use;
  if ("reason" in event) return event.reason;
  return "property" in event ? event.property : undefined;
}
