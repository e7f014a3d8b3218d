import { describe, expect, it } from "vitest";
import { type Visited, withMistakes } from "../../bench/page/mistakes.js";
import { countStale, IDS, ITEM_VALUES, itemsOf, type PageOfCategory, ShopSource } from "../../bench/page/shop.js";
import { zipf } from "../../bench/page/zipf.js";
import { evaluateTargets } from "../../bench/report.js";
import { seededRandom } from "../../bench/seeded-random.js";

const visit = (staleValues: number, mutations = 40): Visited => ({
  requests: 2_000,
  mutations,
  values: 100_000,
  staleValues,
  errors: 0,
});
const rowOf = (contender: string) => ({ contender, values: {} });
const CONTROL = "nothing invalidated";
const staleOf = (visits: Record<string, Visited[]>) =>
  withMistakes(Object.keys(visits).map(rowOf), new Map(Object.entries(visits)), CONTROL);

describe("stale values on the page of the benchmarks", () => {
  it("are those whose version is older than the one that was confirmed before the request", () => {
    const item = (version: number) => ({ film: { version }, stars: { version }, stock: { version: 2 } });
    const category: PageOfCategory = { items: [item(0), item(1), item(2)] };
    expect(countStale(category, [0, 1, 2])).toBe(0);
    expect(countStale(category, [0, 2, 2])).toBe(2);
    expect(countStale(category, [1, 2, 3])).toBe(7);
  });

  it("miss their target if one round of many has one of them, and show a share that is not zero", () => {
    const rows = staleOf({ ours: [visit(0), visit(0), visit(1), visit(0)] });
    const stale = {
      name: "stale values",
      unit: "%",
      better: "less",
      targets: [{ contender: "ours", bound: 0 }],
    } as const;
    expect(evaluateTargets({ title: "page", measures: [stale], rows })).toMatchObject([
      { measured: "0.0003%", result: "missed" },
    ]);
  });

  it("have to be found where nothing is invalidated, or the scenario fails", () => {
    expect(() => staleOf({ ours: [visit(0)], [CONTROL]: [visit(0)] })).toThrow(
      'expected stale values of "nothing invalidated", which invalidates nothing, got none of 100000',
    );
    expect(() => staleOf({ ours: [visit(0)], [CONTROL]: [visit(0), visit(1)] })).not.toThrow();
  });

  it("need not be found in a run that changes next to nothing", () => {
    expect(() => staleOf({ [CONTROL]: [visit(0, 3)] })).not.toThrow();
  });
});

describe("the shop of the benchmarks", () => {
  it("lets a load end after a change that began before it, so that its old value can be stored too late", async () => {
    const source = new ShopSource(3);
    const ended: string[] = [];
    const changing = source.change("7").then((version) => ended.push(`changed to ${version}`));
    const loading = source.load("stock", ["7"]).then(([value]) => {
      ended.push(`loaded ${(value as { version: number }).version}`);
    });
    await Promise.all([changing, loading]);
    expect(ended).toEqual(["changed to 4", "loaded 3"]);
  });

  it("has pages of 62 values, and new pages that share no item with others", () => {
    expect(2 + ITEM_VALUES).toBe(62);
    const [first, second] = [itemsOf(IDS), itemsOf(IDS + 1)];
    expect(new Set([...first, ...second]).size).toBe(40);
    expect(Math.min(...first, ...second)).toBeGreaterThanOrEqual(IDS);
  });

  it("asks for the first id twice as often as for the second", () => {
    const next = zipf(IDS, seededRandom(7));
    const counts = [0, 0];
    for (let nth = 0; nth < 100_000; nth++) {
      const id = next();
      if (id < 2) counts[id] = (counts[id] ?? 0) + 1;
    }
    expect((counts[0] as number) / (counts[1] as number)).toBeCloseTo(2, 0);
    expect((counts[0] as number) / 100_000).toBeCloseTo(1 / 9.09, 2);
  });

  it("answers a load with the version at its beginning", async () => {
    const source = new ShopSource(3);
    const loading = source.load("stock", ["7"]);
    expect(await source.change("7")).toBe(4);
    expect(await loading).toMatchObject([{ id: "7", version: 3 }]);
    expect(source).toMatchObject({ calls: 2, keys: 1 });
  });
});
