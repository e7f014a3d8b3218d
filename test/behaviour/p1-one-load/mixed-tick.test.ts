import { expect, it } from "vitest";
import { onEachStore, pair, type World, waitForStores } from "../../support/world.js";

/** Several turns of the event loop: see `PER_TURN`. */
const COUNT = 1_100;
const ids = Array.from({ length: COUNT }, (_, id) => id);

/** A process whose load of every tenth item reads a second loader. */
function startShop(world: World, source: { readonly price: number }) {
  const process = world.bare();
  const loaded: string[] = [];
  const batch = async (keys: readonly number[]) => keys.map((key) => key + 1);
  const taxes = process.cache.loader({ name: "Tax", maxAge: 60, batch });
  const items = process.cache.loader({
    name: "Item",
    maxAge: 60,
    cacheKeyFn: String,
    tags: (id: number | string) => (Number(id) % 3 === 0 ? [`Item:${id}`] : []),
    batch: (keys: readonly (number | string)[], context: object) => {
      const load = async (key: number | string) => {
        loaded.push(String(key));
        const id = Number(key);
        const tax = id % 10 === 0 ? await taxes(context).load(id % 100) : 0;
        return { id: String(key), price: source.price, tax };
      };
      return Promise.all(keys.map(load));
    },
  });
  return { ...process, items, taxes, loaded };
}

const itemOf = (id: number, price: number) => ({ id: String(id), price, tax: id % 10 === 0 ? (id % 100) + 1 : 0 });
const sorted = (loaded: readonly string[]): number[] => loaded.map(Number).toSorted((a, b) => a - b);

onEachStore("a tick of thousands of reads of several requests", (world) => {
  it("gives each caller a copy of the value of its id, in any order, with one load of each", async () => {
    const shared = world();
    const [one, two] = pair(() => startShop(shared, { price: 1 }));
    for (const { items, taxes, ...process } of [one, two, one, two]) {
      const [up, down, other] = [items({}), items({}), taxes({})];
      const reads = ids.map((id) => {
        // Repeated in the same request, and of another loader.
        const more = id % 7 === 0 ? [up.load(String(id)), other.load(id % 100)] : [];
        return Promise.all([up.load(id), down.load(String(COUNT - 1 - id)), ...more]);
      });
      const all = await Promise.all(reads);
      for (const [id, read] of all.entries()) {
        const more = id % 7 === 0 ? [itemOf(id, 1), (id % 100) + 1] : [];
        expect(read).toEqual([itemOf(id, 1), itemOf(COUNT - 1 - id, 1), ...more]);
      }
      expect(new Set(all.flatMap((read) => read.slice(0, 2))).size).toBe(2 * COUNT);
      if (one.events === process.events) await waitForStores(process, COUNT);
    }
    expect(sorted([...one.loaded, ...two.loaded])).toEqual(ids);
  });

  it("loads again only what one of the requests overrides, and what was invalidated", async () => {
    const source = { price: 1 };
    const { cache, items, loaded, ...process } = startShop(world(), source);
    await items({}).loadMany(ids);
    await waitForStores(process, COUNT);
    loaded.length = 0;
    source.price = 2;
    const invalidated = [3, COUNT - 1 - ((COUNT - 1) % 3)];
    await cache.invalidateTags(invalidated.map((id) => `Item:${id}`));
    const context = {};
    cache.override(context as never, "REFRESH");
    const [plain, refreshing] = [items({}), items(context)];
    const isRefreshed = (id: number): boolean => id % 5 === 1;
    const reads = ids.map((id) =>
      Promise.all([plain.load(id), ...(isRefreshed(id) ? [refreshing.load(String(id))] : [])]),
    );
    for (const [id, [read, again]] of (await Promise.all(reads)).entries()) {
      // What another request refreshes at the same time may be the old or the new one.
      if (!isRefreshed(id)) expect(read).toEqual(itemOf(id, invalidated.includes(id) ? 2 : 1));
      else expect(again).toEqual(itemOf(id, 2));
    }
    expect(sorted(loaded)).toEqual(ids.filter((id) => isRefreshed(id) || invalidated.includes(id)));
  });

  it("is followed by reads that let the event loop go on between them, and each of which is a hit", async () => {
    const { cache, events, outcomes } = world().bare();
    const batch = async (keys: readonly number[]) => keys.map((key) => 10 * key);
    const values = cache.loader<number, number, object>({ name: "Value", maxAge: 60, batch });
    await values({}).load(1);
    await waitForStores({ events });
    let turns = 0;
    let hasEnded = false;
    const countTurns = (): void => {
      turns++;
      if (!hasEnded) setImmediate(countTurns);
    };
    setImmediate(countTurns);
    for (let read = 0; read < 40; read++) expect(await values({}).load(1)).toBe(10);
    hasEnded = true;
    expect(turns).toBeGreaterThanOrEqual(39);
    expect(outcomes()).toEqual({ loaded: 1, hit: 40 });
  });
});
