/**
 * One process of a test: a cache on a real Redis, and a consumer of the outbox of a real PostgreSQL. The
 * environment provides REDIS_PORT, POSTGRES_PORT, PREFIX and SCHEMA. With STOPS_AT, the process sends
 * "stopped" instead of running a statement that contains this text, and waits to be killed.
 */

import { invalidateFromOutbox } from "@graphql-cached/postgres";
import { createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import pg from "pg";

const { REDIS_PORT, POSTGRES_PORT, PREFIX = "", SCHEMA, STOPS_AT } = process.env;
const client = new Redis(Number(REDIS_PORT), "127.0.0.1");
const pool = new pg.Pool({ host: "127.0.0.1", port: Number(POSTGRES_PORT), user: "postgres", database: "postgres" });
const cache = createCache({
  defaultScope: "PUBLIC",
  store: redisStore({ client }),
  prefix: PREFIX,
  storage: { storeTimeoutMs: 1_000 },
});
invalidateFromOutbox({
  cache,
  schema: SCHEMA,
  pollMs: 20,
  leaseMs: 200,
  database: {
    query: (text, values) => {
      if (STOPS_AT === undefined || !text.includes(STOPS_AT)) return pool.query(text, values);
      process.send?.("stopped");
      return new Promise(() => undefined);
    },
  },
});
process.once("disconnect", () => process.exit(0));
