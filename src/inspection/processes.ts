import type { Fleet } from "../fleet/fleet.js";
import type { CacheProcess } from "../generated/schema.js";
import { isoTimeOf } from "./times.js";

/** Describes this process, and all others that have reported. */
export async function describeProcesses(fleet: Fleet): Promise<CacheProcess[]> {
  return (await fleet.processes()).map(({ startedAt, reportedAt, missing, ...process }) => ({
    ...process,
    startedAt: isoTimeOf(startedAt),
    reportedAt: isoTimeOf(reportedAt),
    missing: missing ?? null,
  }));
}
