import type { CacheProcess } from "../../generated/schema.js";
import type { FleetCounts, FleetProcess } from "../fleet/fleet.js";
import type { WindowName } from "../fleet/windows.js";
import type { InspectedParts } from "./inspected-parts.js";
import { isProcessState, type ProcessState, processStateOf } from "./process-state.js";
import { isoTimeOf } from "./times.js";

/** What one answer shows of the fleet. The reports of the processes are read once for all of its parts. */
export class FleetView {
  readonly #parts: InspectedParts;
  readonly #byWindow = new Map<WindowName, Promise<FleetCounts>>();
  #processes: Promise<readonly FleetProcess[]> | undefined;

  constructor(parts: InspectedParts) {
    this.#parts = parts;
  }

  counts(window: WindowName): Promise<FleetCounts> {
    const known = this.#byWindow.get(window);
    if (known !== undefined) return known;
    const counts = this.#parts.fleet.counts(window);
    this.#byWindow.set(window, counts);
    return counts;
  }

  processes(): Promise<readonly FleetProcess[]> {
    this.#processes ??= this.#parts.fleet.processes();
    return this.#processes;
  }

  /**
   * Returns the state of this process now, and those that the others have reported last. `maxListed`: how many leases and
   * events of this process are wanted.
   */
  async states(maxListed?: number): Promise<readonly ProcessState[]> {
    const others = (await this.processes()).filter(({ isThis, isAlive }) => isAlive && !isThis);
    return [processStateOf(this.#parts, maxListed), ...others.map(({ state }) => state).filter(isProcessState)];
  }
}

export function describeProcesses(processes: readonly FleetProcess[]): CacheProcess[] {
  return processes.map(({ startedAt, reportedAt, missing, state: _, ...process }) => ({
    ...process,
    startedAt: isoTimeOf(startedAt),
    reportedAt: isoTimeOf(reportedAt),
    missing: missing ?? null,
  }));
}
