import type { Keeping } from "./contenders/contender.js";
import type { Load, SourceSettings } from "./source.js";

/** How a process of the fleet is made; it travels in its environment. */
export interface AgentSetup {
  readonly contender: string;
  readonly port: number;
  readonly prefix: string;
  readonly keeping: Keeping;
  readonly source: SourceSettings;
  /** Where the source's versions stand, if they matter. */
  readonly databasePort?: number;
  readonly commandTimeoutMs?: number;
}

/** What a process is told to do. `requests` lists, for each request of a tick, the keys that it reads. */
export type Order =
  | { readonly do: "source"; readonly settings: Partial<SourceSettings> }
  /** Reads everything once, so that it is stored. */
  | { readonly do: "warm"; readonly ids: readonly string[] }
  /** All requests at once, again and again, each time when all have their answers: `elapsedMs`. */
  | { readonly do: "repeat"; readonly requests: readonly (readonly string[])[]; readonly times: number }
  /** All requests at once, at an instant: how long each waited, and how many failed. */
  | { readonly do: "burst"; readonly requests: readonly (readonly string[])[]; readonly atMs: number }
  /** So many callers, each of which asks for one key after the other until the time is over. */
  | ({ readonly do: "pour" } & Pour)
  /** Reads one key: its version and when the answer came. */
  | { readonly do: "read"; readonly id: string }
  | { readonly do: "invalidate"; readonly id: string }
  /** Reads so many keys that nobody has read before, and says what the heap has grown by: `heapBytes`. Needs --expose-gc. */
  | { readonly do: "heap"; readonly keys: number }
  | { readonly do: "loads" };

export interface Pour {
  readonly callers: number;
  readonly pauseMs: number;
  readonly forMs: number;
  readonly ids: readonly string[];
  /** Every so many reads of a caller are of a key that nobody has read before; 0 is never. */
  readonly coldEvery: number;
  /** How long calls under way at the end may take before they count as hung. */
  readonly patienceMs: number;
}

/** What came of an order. What it has nothing to say about is empty. */
export interface Report {
  readonly waits: readonly number[];
  readonly errors: number;
  readonly hung: number;
  readonly elapsedMs: number;
  /** The longest time in which the process heard nothing: what a wait may owe to the machine. */
  readonly stallMs: number;
  readonly loads: readonly Load[];
  readonly version: number;
  readonly answeredAt: number;
  readonly heapBytes: number;
}

export const NOTHING: Report = {
  waits: [],
  errors: 0,
  hung: 0,
  elapsedMs: 0,
  stallMs: 0,
  loads: [],
  version: 0,
  answeredAt: 0,
  heapBytes: 0,
};
