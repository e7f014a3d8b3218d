import type { CacheProcess } from "../../generated/schema.js";
import type { FleetProcess } from "../fleet/fleet.js";
import { isoTimeOf } from "./times.js";

/** Describes this process, and all others that have reported. */
export function describeProcesses(processes: readonly FleetProcess[]): CacheProcess[] {
  return processes.map(({ startedAt, reportedAt, missing, state: _, ...process }) => ({
    ...process,
    startedAt: isoTimeOf(startedAt),
    reportedAt: isoTimeOf(reportedAt),
    missing: missing ?? null,
  }));
}
