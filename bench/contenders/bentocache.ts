import { BentoCache, bentostore } from "bentocache";
import { redisDriver } from "bentocache/drivers/redis";
import type { Contender } from "./contender.js";

/** bentocache on Redis only, with its circuit breaker and suppressed store errors. Stale values are served at once (`timeout: 0`). */
export const bentocache: Contender = {
  name: "bentocache",
  kind: "peer",
  module: "contenders/bentocache",
  open: ({ client, prefix, source, policy }) => {
    const bento = new BentoCache({
      default: "films",
      stores: { films: bentostore({ prefix }).useL2Layer(redisDriver({ connection: client })) },
      suppressL2Errors: true,
      l2CircuitBreakerDuration: 1_000,
    });
    const stale = policy.staleFor > 0 ? { grace: policy.staleFor * 1_000, timeout: 0 } : {};
    const ttl = policy.maxAge * 1_000;
    return {
      request: () => (id) => bento.getOrSet({ key: id, factory: () => source.loadOne(id), ttl, ...stale }),
      invalidate: (id) => bento.delete({ key: id }),
    };
  },
};
