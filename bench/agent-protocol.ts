import type { CachePolicy } from "./contenders/contender.js";
import type { Load, SourceSettings } from "./source.js";

/** The configuration of an agent process, passed through its environment. */
export interface AgentSetup {
  readonly contender: string;
  readonly port: number;
  readonly prefix: string;
  readonly policy: CachePolicy;
  readonly source: SourceSettings;
  /** The Redis port of the source's versions, if the scenario uses them. */
  readonly databasePort?: number;
  readonly commandTimeoutMs?: number;
}

/** A command for an agent process. `requests` lists the keys of each request of a tick. */
export type AgentCommand =
  | { readonly do: "source"; readonly settings: Partial<SourceSettings> }
  /** Reads each key once, so that it is stored. */
  | { readonly do: "warm"; readonly ids: readonly string[] }
  /** Runs all requests in one tick, `times` times in succession. Reports `elapsedMs`. */
  | { readonly do: "repeat"; readonly requests: readonly (readonly string[])[]; readonly times: number }
  /** Runs all requests at the instant `atMs`. Reports `waits` and `errors`. */
  | { readonly do: "burst"; readonly requests: readonly (readonly string[])[]; readonly atMs: number }
  /** Runs callers that read one key after another until the time is over. */
  | ({ readonly do: "traffic" } & Traffic)
  /** Reads one key. Reports `version` and `completedAt`. */
  | { readonly do: "read"; readonly id: string }
  | { readonly do: "invalidate"; readonly id: string }
  /** Reads `keys` new keys. Reports the growth of the heap as `heapBytes`. Needs --expose-gc. */
  | { readonly do: "heap"; readonly keys: number }
  | { readonly do: "loads" };

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
  readonly errors: number;
  readonly hung: number;
  readonly elapsedMs: number;
  /** The longest stall of the event loop: how much of a wait may be caused by the machine. */
  readonly stallMs: number;
  readonly loads: readonly Load[];
  readonly version: number;
  readonly completedAt: number;
  readonly heapBytes: number;
}

export const EMPTY_REPORT: AgentReport = {
  waits: [],
  errors: 0,
  hung: 0,
  elapsedMs: 0,
  stallMs: 0,
  loads: [],
  version: 0,
  completedAt: 0,
  heapBytes: 0,
};
