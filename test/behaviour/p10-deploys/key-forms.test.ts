import { gate } from "@graphql-cached/testing";
import { expect, it } from "vitest";
import { VersionedSource } from "../../support/versioned-source.js";
import { dataOf, onEachStore, type Process, type World, waitForStores } from "../../support/world.js";

const field = (settings = "", type = "Int") =>
  `type Query { value(id: ID!, lang: String): ${type} @cached(maxAge: 60${settings}) }`;
/** Its keys contain `lang` as well. */
const FIRST = field();
/** Another shape, and the same keys. */
const SAME_FORM = field("", "Float");
const OTHER_FORM = field(', key: ["$args.id"]');

class Source extends VersionedSource {
  start(world: World, typeDefs = FIRST, options: object = {}): Process {
    return world.process(typeDefs, { Query: { value: this.load } }, { storage: { storeTimeoutMs: 2_000 }, ...options });
  }
}

const target = { coordinate: "Query.value", args: { id: "7" } };
const read = async ({ ask }: Process, id = "7"): Promise<unknown> =>
  ((await dataOf(ask(`{ value(id: "${id}") }`))) as { value: unknown }).value;
const readBoth = async (process: Process) => [await read(process, "7"), await read(process, "8")];

/** Two releases whose keys have different forms, both of which have stored two keys. */
async function startReleases(world: World, settings = "") {
  const source = new Source();
  const old = source.start(world, field(settings));
  const next = source.start(world, field(`, key: ["$args.id"]${settings}`));
  for (const process of [old, next]) {
    expect(await readBoth(process)).toEqual([1, 1]);
    await waitForStores(process, 2);
  }
  return { source, old, next };
}

onEachStore("an invalidation by key", (world) => {
  it("reaches the entry of every release that makes its keys in the same way, also after a rollback", async () => {
    const shared = world();
    const source = new Source();
    const [old, next] = [source.start(shared), source.start(shared, SAME_FORM)];
    for (const invalidating of [old, next]) {
      for (const process of [old, next]) {
        await read(process);
        await expect.poll(async () => (await read(process), process.outcomes().hit ?? 0)).toBeGreaterThan(0);
      }
      source.version++;
      await invalidating.cache.invalidate(target);
      for (const process of [old, next]) expect(await read(process)).toBe(source.version);
    }
    for (const process of [old, next]) await waitForStores(process, 3);
    source.version++;
    await next.cache.invalidate(target);
    expect(await read(source.start(shared))).toBe(source.version);
  });

  it("outdates all older entries of a release that makes its keys in another way, and of its own release that key alone", async () => {
    const shared = world();
    const { source, old, next } = await startReleases(shared);
    source.version = 2;
    await old.cache.invalidate(target);
    expect([...(await readBoth(old)), ...(await readBoth(next))]).toEqual([2, 1, 2, 2]);
    await waitForStores(next, 4);
    // What was loaded afterwards is kept.
    source.version = 3;
    expect(await readBoth(next)).toEqual([2, 2]);
    // A process that starts later reads the record in the log.
    const { loads } = source;
    const [later, laterOld] = [source.start(shared, OTHER_FORM), source.start(shared)];
    expect([await readBoth(later), await read(laterOld, "8"), source.loads]).toEqual([[2, 2], 1, loads]);
  });

  it("outdates the older entries of another key form in a process that starts later", async () => {
    const shared = world();
    const { source, old } = await startReleases(shared);
    source.version = 2;
    await old.cache.invalidate(target);
    expect(await readBoth(source.start(shared, OTHER_FORM))).toEqual([2, 2]);
    expect(await readBoth(source.start(shared))).toEqual([2, 1]);
  });

  it.each([
    ["the same way", SAME_FORM],
    ["another way", OTHER_FORM],
  ])("outdates what a release loads meanwhile that makes its keys in %s", async (_way, typeDefs) => {
    const shared = world();
    const source = new Source();
    const invalidating = source.start(shared);
    await read(invalidating);
    await waitForStores(invalidating);
    const third = source.start(shared, typeDefs);
    const held = gate();
    source.hold = held.passed;
    const loading = read(third);
    await expect.poll(() => source.loads).toBe(2);
    source.hold = undefined;
    source.version = 2;
    await invalidating.cache.invalidate(target);
    held.open();
    expect(await loading).toBe(1);
    await waitForStores(third);
    expect([await read(third), await read(invalidating)]).toEqual([2, 2]);
  });

  it("makes all older entries of another key form stale if it is soft", async () => {
    const { source, old, next } = await startReleases(world(), ", staleWhileRevalidate: 60");
    source.version = 2;
    await old.cache.invalidate(target, { soft: true });
    expect([await readBoth(next), await read(old, "8")]).toEqual([[1, 1], 1]);
    expect([next.outcomes().stale, old.outcomes().hit]).toEqual([2, 1]);
    await waitForStores(next, 4);
    expect([await readBoth(next), await read(old, "8")]).toEqual([[2, 2], 1]);
  });

  it("keeps values of another key form from being stored while cache.mutate runs, and of its own form those of other keys are", async () => {
    const { source, old, next } = await startReleases(world());
    await old.cache.mutate({ entries: [target] }, async () => {
      expect(await read(old, "8")).toBe(1);
      // What another process reads before the commit.
      for (const id of ["7", "8", "7"]) await read(next, id);
      await read(old, "9");
      source.version = 2;
    });
    expect(next.outcomes()).toMatchObject({ "bypassed(WRITE_IN_PROGRESS)": 3 });
    expect([await readBoth(next), await read(old)]).toEqual([[2, 2], 2]);
    await waitForStores(old, 4);
    source.version = 3;
    expect([await read(old, "8"), await read(old, "9")]).toEqual([1, 1]);
  });

  it("outdates the entries of 150 shapes of one field in one store, all of which are hits before", async () => {
    const shared = world();
    const source = new Source();
    const store = shared.store();
    const options = { store, storage: { storeTimeoutMs: 10_000 } } as object;
    const value = async () => ({ n: await source.load() });
    const releases = Array.from({ length: 150 }, (_, nth) => {
      const types = `type Query { value(id: ID!, lang: String): Movie @cached(maxAge: 60) } type Movie { n: Int field${nth}: Int }`;
      return shared.process(types, { Query: { value } }, options);
    });
    const readAll = () => Promise.all(releases.map(({ ask }) => dataOf(ask('{ value(id: "7") { n } }'))));
    const all = (n: number): unknown[] => releases.map(() => ({ value: { n } }));
    expect(await readAll()).toEqual(all(1));
    await Promise.all(releases.map((release) => waitForStores(release)));
    expect([await readAll(), source.loads]).toEqual([all(1), 150]);
    source.version = 2;
    await releases[74]?.cache.invalidate(target);
    expect([await readAll(), source.loads]).toEqual([all(2), 300]);
  });
});
