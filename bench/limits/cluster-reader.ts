import calculateSlot from "cluster-key-slot";
import DataLoader from "dataloader";
import type { ChainableCommander, Cluster } from "ioredis";
import type { Contender } from "../contenders/contender.js";
import type { Film } from "../source.js";
import { digestKey } from "./digest-key.js";

/** The least that a hit on a Cluster costs: digests as keys, one pipeline of GETs per node. */
export const clusterReader: Contender = {
  name: "bare: one pipeline a node",
  kind: "limit",
  module: "limits/cluster-reader",
  open: ({ client, prefix, source, policy }) => {
    const cluster = client as unknown as Cluster;
    const batch = async (ids: readonly string[]): Promise<Film[]> => {
      const names = ids.map((id) => digestKey(prefix, id));
      const groups = new Map<string | undefined, { readonly pipeline: ChainableCommander; readonly at: number[] }>();
      for (const [nth, name] of names.entries()) {
        const node = cluster.slots[calculateSlot(name)]?.[0];
        const group = groups.get(node) ?? { pipeline: cluster.pipeline(), at: [] };
        groups.set(node, group);
        group.pipeline.get(name);
        group.at.push(nth);
      }
      const films: (Film | undefined)[] = new Array(ids.length);
      const read = async ({ pipeline, at }: { pipeline: ChainableCommander; at: number[] }): Promise<void> => {
        const replies = (await pipeline.exec()) ?? [];
        for (const [nth, index] of at.entries()) {
          const text = replies[nth]?.[1];
          if (typeof text === "string") films[index] = JSON.parse(text) as Film;
        }
      };
      await Promise.all([...groups.values()].map(read));
      return Promise.all(
        films.map(async (found, nth) => {
          if (found !== undefined) return found;
          const film = await source.loadOne(ids[nth] as string);
          await client.set(names[nth] as string, JSON.stringify(film), "EX", policy.maxAge);
          return film;
        }),
      );
    };
    return {
      request: () => {
        const loader = new DataLoader<string, Film>(batch);
        return (id) => loader.load(id);
      },
      invalidate: (id) => client.del(digestKey(prefix, id)),
    };
  },
};
