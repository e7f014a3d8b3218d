import { BentoCache, bentostore } from "bentocache";
import { redisDriver } from "bentocache/drivers/redis";
import { type Contender, MAX_AGE_S } from "./contender.js";

/** bentocache on Redis only, with its circuit breaker and suppressed store errors. */
export const bentocache: Contender = {
  name: "bentocache",
  open: ({ client, prefix, source }) => {
    const bento = new BentoCache({
      default: "films",
      stores: { films: bentostore({ prefix }).useL2Layer(redisDriver({ connection: client })) },
      suppressL2Errors: true,
      l2CircuitBreakerDuration: 1_000,
    });
    const ttl = MAX_AGE_S * 1_000;
    return {
      request: () => (id) => bento.getOrSet({ key: id, factory: () => source.loadOne(id), ttl }),
      invalidate: (id) => bento.delete({ key: id }),
    };
  },
};
