import { openDataLoader } from "../contenders/baseline.js";
import type { Contender } from "../contenders/contender.js";
import { digestKey } from "./digest-key.js";

/** The hashing floor: DataLoader with MGET, with digests as keys. */
export const hashingFloor: Contender = {
  name: "DataLoader + MGET, hashed keys",
  kind: "floor",
  module: "limits/hashing-floor",
  open: (options) => openDataLoader(options, (id) => digestKey(options.prefix, id)),
};
