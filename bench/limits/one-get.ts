import type { Contender } from "../contenders/contender.js";
import type { Film } from "../source.js";
import { digestKey } from "./digest-key.js";

/** The least that one key costs without batching: a GET at once, with a digest as key. A hundred keys are a hundred commands. */
export const oneGet: Contender = {
  name: "bare: one GET a key",
  kind: "limit",
  module: "limits/one-get",
  open: ({ client, prefix, source, policy }) => {
    const read = async (id: string): Promise<Film> => {
      const name = digestKey(prefix, id);
      const text = await client.get(name);
      if (text !== null) return JSON.parse(text) as Film;
      const film = await source.loadOne(id);
      await client.set(name, JSON.stringify(film), "EX", policy.maxAge);
      return film;
    };
    return { request: () => read, invalidate: (id) => client.del(digestKey(prefix, id)) };
  },
};
