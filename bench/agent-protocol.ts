import type { CachePolicy } from "./contenders/contender.js";
import type { Load, SourceSettings } from "./source.js";

/** The configuration of an agent process, passed through its environment. */
export interface AgentSetup {
  readonly contender: string;
  /** The module that exports the contender. */
  readonly module: string;
  readonly port: number;
  /** The ports of a Cluster, used instead of `port`. */
  readonly clusterPorts?: readonly number[];
  readonly prefix: string;
  readonly policy: CachePolicy;
  readonly source: SourceSettings;
  /** The Redis port of the source's versions, if the scenario uses them. */
  readonly databasePort?: number;
  readonly commandTimeoutMs?: number;
}

/**
 * A range of ids, `<name>-0` to `<name>-<size - 1>`, or as many out of a larger one. Each process goes through it in order and begins
 * again at its end, so that an id is repeated only after all others.
 */
export interface Space {
  readonly name: string;
  readonly size: number;
  /** The size of the range that the ids are taken from. Default: `size`. */
  readonly of?: number;
  /** The distance between successive ids, which has no factor in common with `of`. Default: 1. A large one scatters the reads. */
  readonly stride?: number;
}

/** The reads of a tick: `requests` requests of `keys` keys, all of the same ones or each of its own. */
export interface Tick {
  readonly requests: number;
  readonly keys: number;
  readonly isSame: boolean;
}

/** A command for an agent process. `requests` lists the keys of each request of a tick. */
export type AgentCommand =
  | { readonly do: "source"; readonly settings: Partial<SourceSettings> }
  /** Reads each key once, so that it is stored. */
  | { readonly do: "warm"; readonly ids: readonly string[] }
  /** Reads each id of a space once, or those from `from` to before `to`, in requests of `perRequest`. */
  | {
      readonly do: "fill";
      readonly space: Space;
      readonly perRequest: number;
      readonly from?: number;
      readonly to?: number;
    }
  /**
   * Runs `times` ticks in succession, after half as many that are not measured, each with the next ids of the space.
   * Reports `elapsedMs` and `cpuMs`, and as `ticks` how many it has run in all.
   */
  | ({ readonly do: "cycle"; readonly space: Space; readonly times: number } & Tick)
  /**
   * Runs all requests at the instant `atMs`. Reports `waits`, `errors` and `cpuMs`, and `stallMs` with `watchesStalls`, which
   * needs CPU time itself.
   */
  | {
      readonly do: "burst";
      readonly requests: readonly (readonly string[])[];
      readonly atMs: number;
      readonly watchesStalls?: boolean;
    }
  /** Starts requests at scheduled times, whether or not earlier ones have completed. Reports `waits`, counted from the scheduled time. */
  | ({ readonly do: "arrivals" } & Arrivals)
  /** Starts readers of cold keys, a few in each turn of the event loop. Reports `waits`, `errors`, `cpuMs` and `stallMs`. */
  | { readonly do: "crowd"; readonly readers: number; readonly ids: readonly string[] }
  /** Runs callers that read one key after another until the time is over. */
  | ({ readonly do: "traffic" } & Traffic)
  /** Reads one key. Reports `version` and `completedAt`. */
  | { readonly do: "read"; readonly id: string }
  /** Reads keys one after the other. Reports `completedAt`. */
  | { readonly do: "reads"; readonly ids: readonly string[] }
  | { readonly do: "invalidate"; readonly id: string }
  /** Reads `keys` new keys. Reports the growth of the heap as `heapBytes`. Needs --expose-gc. */
  | { readonly do: "heap"; readonly keys: number }
  /** Runs GraphQL requests on a server. Only for server processes. Reports `elapsedMs` and `loads`. */
  | ({ readonly do: "serve" } & Serving)
  | { readonly do: "loads" };

/** GraphQL requests of `callers` callers, each of which sends `times` of them, one after the other, for pages of the first `ids` ids. */
export interface Serving {
  readonly runtime: string;
  readonly callers: number;
  readonly times: number;
  readonly ids: number;
  /** How far the page of each request is from that of the request before. Less than a hundred: pages overlap. */
  readonly step: number;
  /** How many requests each caller makes before those that are measured. Default: none. */
  readonly before?: number;
}

/** Requests of `keys` warm keys at random times, `ratePerS` per second on average. */
export interface Arrivals {
  readonly ratePerS: number;
  readonly keys: number;
  readonly space: Space;
  readonly forMs: number;
  readonly seed: number;
}

/** Sustained traffic of concurrent callers. */
export interface Traffic {
  readonly callers: number;
  readonly pauseMs: number;
  readonly forMs: number;
  readonly ids: readonly string[];
  /** Each caller reads a new key every `coldEvery` reads; 0 means never. */
  readonly coldEvery: number;
  /** How long pending calls may take after the end before they count as hung. */
  readonly patienceMs: number;
}

/** The result of a command. Properties that do not apply to it are 0 or empty. */
export interface AgentReport {
  readonly waits: readonly number[];
  /** When each wait began, on the clock of `instantMs`, if the command reports it. */
  readonly startedAt: readonly number[];
  readonly errors: number;
  readonly hung: number;
  /** How many ticks `cycle` has run, also those that are not measured. */
  readonly ticks: number;
  readonly elapsedMs: number;
  /** The CPU time of the process. */
  readonly cpuMs: number;
  /** The longest stall of the event loop: how much of a wait may be caused by the machine. */
  readonly stallMs: number;
  readonly loads: readonly Load[];
  readonly version: number;
  readonly completedAt: number;
  readonly heapBytes: number;
}

export const EMPTY_REPORT: AgentReport = {
  waits: [],
  startedAt: [],
  errors: 0,
  hung: 0,
  ticks: 0,
  elapsedMs: 0,
  cpuMs: 0,
  stallMs: 0,
  loads: [],
  version: 0,
  completedAt: 0,
  heapBytes: 0,
};
