import { type BypassReason, CALLS_SOURCE, type CacheEvent } from "../../core/telemetry/events.js";

/** Listens to the events of several caches and counts their loads. */
export class LoadCounter {
  readonly #loads = new Map<string, CoordinateLoads>();
  readonly #obstacles = new Map<string, string>();
  /** How many reads were served from an entry. */
  served = 0;

  add(event: CacheEvent): void {
    switch (event.name) {
      case "entry.served":
        if (event.outcome === "hit" || event.outcome === "stale") this.served++;
        return;
      case "load.started":
        increment(this.#loadsOf(event.coordinate).byKey, event.digest);
        return;
      case "resolver.bypassed":
        if (CALLS_SOURCE[event.reason] && !ASKED_FOR.has(event.reason))
          increment(this.#loadsOf(event.coordinate).withoutKey, event.reason);
        this.#explain(event.coordinate, event.error);
        return;
      case "value.refused":
      case "selection.read":
      case "load.failed":
      case "entry.corrupt":
        this.#explain(event.coordinate, event.error);
        return;
      case "store.failed":
        this.#explain("store", event.error);
        return;
    }
  }

  /** Forgets the loads. What prevented storing or sharing values is kept. */
  reset(): void {
    this.#loads.clear();
    this.served = 0;
  }

  get loads(): ReadonlyMap<string, CoordinateLoads> {
    return this.#loads;
  }

  /** Returns why values of a coordinate could not be stored or shared, as far as an event said so. */
  obstacleOf(coordinate: string): string | undefined {
    const inStore = this.#obstacles.get("store");
    return this.#obstacles.get(coordinate) ?? (inStore === undefined ? undefined : `the store failed: ${inStore}`);
  }

  /** Returns every obstacle, each with its coordinate. */
  obstacles(): string[] {
    return [...this.#obstacles].map(([where, obstacle]) =>
      obstacle.includes(where) ? obstacle : `${where}: ${obstacle}`,
    );
  }

  #explain(where: string, error: unknown): void {
    if (error !== undefined && !this.#obstacles.has(where))
      this.#obstacles.set(where, error instanceof Error ? error.message : String(error));
  }

  #loadsOf(coordinate: string): CoordinateLoads {
    const loads = this.#loads.get(coordinate) ?? { byKey: new Map(), withoutKey: new Map() };
    this.#loads.set(coordinate, loads);
    return loads;
  }
}

/** The reasons that say nothing about a schema: an operator or a caller has asked for the source. */
const ASKED_FOR: ReadonlySet<BypassReason> = new Set<BypassReason>(["REQUESTED", "MODE_OFF"]);

/** The loads of one coordinate. */
export interface CoordinateLoads {
  /** How often each key was loaded, by digest. */
  readonly byKey: Map<string, number>;
  /** How often the resolver ran without a key, by the reason. */
  readonly withoutKey: Map<string, number>;
}

const increment = (counts: Map<string, number>, name: string): unknown => counts.set(name, (counts.get(name) ?? 0) + 1);
