import { type Clock, wallTimeOf } from "../../core/base/clock.js";
import { errorTypeOf } from "../../core/telemetry/error-type.js";
import type { CacheEvent as AnyEvent } from "../../core/telemetry/events.js";
import type { CacheEvent, CacheInvalidation } from "../../generated/schema.js";

/**
 * Keeps the last 100 events of this process that report an invalidation, trouble, or its end. What
 * happens for every hit or every load is not kept, so that a cache that works costs nothing. Equal
 * events of one field, loader or node are one, with a count.
 */
export class RecentEvents {
  /** By what makes them equal; the one that was reported last comes last. */
  readonly #events = new Map<string, RecentEvent>();
  #invalidations = 0;

  constructor(private readonly clock: Clock) {}

  readonly record = (event: AnyEvent): void => {
    if (!isKept(event)) return;
    const texts = event as Partial<Record<string, string>>;
    const { coordinate, digest, node = null } = texts;
    const detail = texts.operation ?? texts.use ?? texts.reason ?? texts.property ?? null;
    const error = "error" in event ? errorTypeOf(event.error) : null;
    const invalidation = event.name === "invalidation.finished" ? describe(event) : null;
    const identity =
      invalidation === null ? [event.name, coordinate, node, detail, error].join("\n") : `${++this.#invalidations}`;
    const recent: RecentEvent = {
      name: event.name,
      at: wallTimeOf(this.clock),
      count: 1 + (this.#events.get(identity)?.count ?? 0),
      coordinates: "coordinates" in event ? event.coordinates.slice(0, MAX_NAMES) : coordinate ? [coordinate] : [],
      digest: digest || null,
      node,
      detail,
      error,
      invalidation,
    };
    this.#events.delete(identity);
    this.#events.set(identity, recent);
    if (this.#events.size > MAX_EVENTS) this.#events.delete(this.#events.keys().next().value as string);
  };

  get newest(): readonly RecentEvent[] {
    return [...this.#events.values()].reverse();
  }
}

/** An event in reports. Contains no user data: of an error of the source, its code or class. */
export interface RecentEvent extends Omit<CacheEvent, "__typename" | "process" | "at"> {
  /** When it was last reported, in milliseconds since 1970. */
  readonly at: number;
}

const MAX_EVENTS = 100;
/** How many coordinates and digests of tags an event has at most. */
const MAX_NAMES = 100;

/** An event that is published for every read, load or operation must not be kept. */
function isKept(event: AnyEvent): boolean {
  switch (event.name) {
    case "load.started":
    case "load.finished":
    case "refresh.enqueued":
      return false;
    case "resolver.bypassed":
      // Bypasses are trouble if there is a mistake to correct.
      return event.error !== undefined;
    case "write.finished":
      return !event.isStored;
    case "invalidation.finished":
      // Of the attempts to repeat one, the last one.
      return event.isConfirmed || event.via !== "retry";
    default:
      return true;
  }
}

function describe(event: Extract<AnyEvent, { name: "invalidation.finished" }>): CacheInvalidation {
  const { kind, via, mutation = null, invalidationMs, isConfirmed, isClear, tags, tagCount, entryCount } = event;
  return {
    kind: kind.toUpperCase() as CacheInvalidation["kind"],
    via,
    mutation,
    tookMs: invalidationMs,
    isConfirmed,
    isClear,
    tags: tags.slice(0, MAX_NAMES),
    tagCount,
    entryCount,
  };
}
