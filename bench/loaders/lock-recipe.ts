import { randomUUID } from "node:crypto";
import { pause } from "../instant.js";

import { type Contender, MAX_AGE_S } from "./contender.js";
import type { Film } from "./source.js";

const POLL_MS = 50;
const LOCK_MS = 3_000;
const WAIT_MS = 3_000;
const UNLOCK = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`;

/** The mutex recipe of many blog posts: GET, then SET NX PX on a lock key. The lock holder loads and writes, the others poll every 50 ms. */
export const lockRecipe: Contender = {
  name: "lock recipe",
  open: ({ client, prefix, source }) => {
    const loadAndStore = async (id: string, lock: string): Promise<Film> => {
      try {
        const film = await source.loadOne(id);
        await client.set(`${prefix}:${id}`, JSON.stringify(film), "EX", MAX_AGE_S);
        return film;
      } finally {
        await client.eval(UNLOCK, 1, `${prefix}:lock:${id}`, lock).catch(() => undefined);
      }
    };
    const read = async (id: string): Promise<Film> => {
      const deadlineAt = performance.now() + WAIT_MS;
      while (performance.now() < deadlineAt) {
        const text = await client.get(`${prefix}:${id}`);
        if (text !== null) return JSON.parse(text) as Film;
        const lock = randomUUID();
        if ((await client.set(`${prefix}:lock:${id}`, lock, "PX", LOCK_MS, "NX")) === "OK")
          return loadAndStore(id, lock);
        await pause(POLL_MS);
      }
      return source.loadOne(id);
    };
    return { request: () => read, invalidate: (id) => client.del(`${prefix}:${id}`) };
  },
};
