import type { Clock } from "../../base/clock.js";
import { Waiters } from "../request/waiters.js";

/** Returns those who wait for a load. With `lingerMs`, they leave that much later once it has begun. */
export function lingering({ waiters, lingerMs = 0 }: LingeringLoad, clock: Clock, hasBegun: () => boolean): Waiters {
  if (lingerMs === 0) return waiters;
  const later = new Waiters((go) => {
    if (hasBegun()) return clock.after(lingerMs, go);
    go();
    return () => undefined;
  });
  later.addAll(waiters);
  return later;
}

interface LingeringLoad {
  readonly waiters: Waiters;
  /** How long it goes on when nobody waits for it any more. Default: not at all. */
  readonly lingerMs?: number;
}
