import { expect, it } from "vitest";
import { onEachStore, waitForStores } from "../../support/world.js";

const ids = Array.from({ length: 40 }, (_, id) => id);
/** None to three of seven tags, which the keys share. */
const tagsOf = (id: number): string[] => Array.from({ length: id % 4 }, (_, nth) => `Pool:${(id + 3 * nth) % 7}`);

onEachStore("keys with different numbers of tags, read by several requests in one tick", (world) => {
  it("loads again the keys with an invalidated tag, and no others", async () => {
    const start = world();
    const process = start.process("type Query { now: Int }", {});
    const loaded: number[] = [];
    const items = process.cache.loader({
      name: "Item",
      maxAge: 60,
      tags: tagsOf,
      batch: async (keys: readonly number[]) => {
        loaded.push(...keys);
        return keys.map((key) => ({ key }));
      },
    });
    /** Two requests read each key one after the other, and a third one reads all in reverse order. */
    const readAll = async (): Promise<void> => {
      const order = [...ids.flatMap((id) => [id, id]), ...ids.toReversed()];
      const requests = [items({}), items({}), items({})] as const;
      const requestAt = (at: number) => requests[at < 2 * ids.length ? at % 2 : 2] as (typeof requests)[0];
      const all = await Promise.all(order.map((id, at) => requestAt(at).load(id)));
      expect(all).toEqual(order.map((key) => ({ key })));
    };
    await readAll();
    let stores = ids.length;
    await waitForStores(process, stores);
    for (const tag of ["Pool:0", "Pool:3", "Pool:6"]) {
      loaded.length = 0;
      await readAll();
      expect(loaded).toEqual([]);
      await process.cache.invalidateTags([tag]);
      await readAll();
      const tagged = ids.filter((id) => tagsOf(id).includes(tag));
      expect(loaded.toSorted((a, b) => a - b)).toEqual(tagged);
      stores += tagged.length;
      await waitForStores(process, stores);
    }
  });
});
