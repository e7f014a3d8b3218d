import { type CacheParts, partsOf } from "../../core/parts.js";
import type { Fleet } from "../fleet/fleet.js";

/** The parts of a cache as `createCache` assembles them: those of the core, and the statistics of all processes. */
export interface InspectedParts extends CacheParts {
  readonly fleet: Fleet;
}

/** Returns the parts of a cache with its statistics. Throws as `partsOf` does. */
export const inspectedPartsOf = (cache: unknown, caller: string): InspectedParts =>
  // Only `assemble` makes parts, and it makes them with a fleet.
  partsOf(cache, caller) as InspectedParts;
