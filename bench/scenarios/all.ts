import type { Scenario } from "../scenario.js";
import { coldKey } from "./cold-key.js";
import { coldKeys } from "./cold-keys.js";
import { disjointKeys } from "./disjoint-keys.js";
import { sameKeys } from "./same-keys.js";
import { warmKey } from "./warm-key.js";
import { warmKeys } from "./warm-keys.js";

/** In the order in which they run. A scenario is added by its file and a line here. */
export const SCENARIOS: readonly Scenario[] = [warmKey, warmKeys, sameKeys, disjointKeys, coldKey, coldKeys];
