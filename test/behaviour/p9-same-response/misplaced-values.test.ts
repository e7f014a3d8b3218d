import { gate, settle } from "@graphql-cached/testing";
import type { Cache, CacheEvent } from "graphql-cached";
import { afterEach, describe, expect, it, vi } from "vitest";
import { memoryWorld, onEachStore, type Process, type World } from "../../support/world.js";

type Id = number | string;
interface Film {
  readonly id: Id;
  readonly title?: string;
}
type Batch = (ids: readonly Id[]) => readonly unknown[];

const film = (id: Id): Film => ({ id, title: `film ${id}` });
const sorted = (ids: readonly Id[]): Id[] => [...ids].sort();

afterEach(() => void vi.unstubAllEnvs());

/** A process with one loader, and the ids of each call of its batch function. */
function start(world: World, batch: Batch, options: object = {}) {
  const logged: string[] = [];
  const logger = { info: () => undefined, warn: (line: string) => void logged.push(line) };
  const process = world.process("type Query { a: Int }", {}, { logger });
  const calls: Id[][] = [];
  const films = process.cache.loader<Id, unknown>({
    name: "Film",
    maxAge: 60,
    batch: async (ids) => {
      calls.push([...ids]);
      return batch(ids) as (unknown | Error)[];
    },
    ...options,
  });
  return { process, films, calls, logged, loadMany: (ids: readonly Id[]) => films({}).loadMany(ids) };
}

const refused = ({ events }: Process): CacheEvent[] => events.filter(({ name }) => name === "value.refused");

/** Waits until what was loaded is stored. */
async function stored({ events }: Process, count: number): Promise<void> {
  await vi.waitFor(() =>
    expect(events.filter((event) => event.name === "write.finished" && event.isStored)).toHaveLength(count),
  );
  await settle();
}

onEachStore("values in the place of another id", (world) => {
  it("are not stored if a batch function returns rows in the order of its source, and are reported once", async () => {
    let batch: Batch = (ids) => sorted(ids).map(film);
    const { process, calls, logged, loadMany } = start(world(), (ids) => batch(ids));
    // As with DataLoader, the request gets what the batch function returns.
    expect(await loadMany([3, 2, 1])).toEqual([1, 2, 3].map(film));
    await stored(process, 1);
    await settle();
    batch = (ids) => ids.map(film);
    expect(await loadMany([3, 2, 1])).toEqual([3, 2, 1].map(film));
    expect(calls).toEqual([
      [3, 2, 1],
      [3, 1],
    ]);
    expect(refused(process)).toMatchObject([1, 2].map(() => ({ error: { code: "CACHED_VALUE_MISPLACED" } })));
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain("`Film`: the value is not cached: expected `batch` to return each value in the place");
  });

  it("are not stored if a batch function sorts its ids in place in production", async () => {
    vi.stubEnv("NODE_ENV", "production");
    // Without an `id`, nothing else shows it.
    let batch: Batch = (ids) => (ids as number[]).sort((a, b) => a - b).map((id) => `film ${id}`);
    const { process, loadMany, logged } = start(world(), (ids) => batch(ids));
    expect(await loadMany([3, 2, 1])).toEqual(["film 1", "film 2", "film 3"]);
    await settle();
    batch = (ids) => ids.map((id) => `film ${id}`);
    expect(await loadMany([3, 2, 1])).toEqual(["film 3", "film 2", "film 1"]);
    expect(refused(process)).toHaveLength(3);
    expect(logged).toMatchObject([expect.stringContaining("expected `batch` to leave `ids` as it is")]);
  });

  it("are not given to other requests that wait for the load", async () => {
    const { passed, open } = gate();
    const { process, films, loadMany } = start(world(), (ids) => sorted(ids).map(film), {
      batch: async (ids: readonly Id[]) => {
        if (ids.length > 1) await passed;
        return sorted(ids).map(film);
      },
    });
    const first = loadMany([3, 2, 1]);
    await vi.waitFor(() => expect(process.events.filter(({ name }) => name === "load.started")).toHaveLength(3));
    const second = films({}).load(3);
    await settle();
    open();
    expect(await first).toEqual([1, 2, 3].map(film));
    expect(await second).toEqual(film(3));
  });
});

describe("a batch function", () => {
  it("gets ids that cannot be changed outside of production", async () => {
    const changes: readonly ((ids: Id[]) => unknown)[] = [
      (ids) => ids.reverse(),
      (ids) => ids.pop(),
      (ids) => ids.push(1),
    ];
    for (const change of changes)
      for (const options of [{}, { maxAge: 0 }]) {
        const { films } = start(memoryWorld(), (ids) => change(ids as Id[]) as Id[], options);
        for (const result of await films({}).loadMany([3, 1])) expect(result).toBeInstanceOf(TypeError);
      }
  });

  it("stores what is in its place although another value is not", async () => {
    const { process, calls, loadMany } = start(memoryWorld(), (ids) => ids.map((id) => film(id === 2 ? 9 : id)));
    await loadMany([1, 2, 3]);
    await stored(process, 2);
    await loadMany([1, 2, 3]);
    expect(calls).toEqual([[1, 2, 3], [2]]);
  });

  const TEXT_IDS: Readonly<Record<string, (ids: readonly Id[]) => readonly Film[]>> = {
    "the value of another id of the call": (ids) => [...ids].reverse().map(film),
    "a value that was not asked for beside one that was": (ids) => ids.map((id) => film(id === "b" ? "z" : id)),
    "one object for all ids": (ids) => ids.map(() => film("b")),
  };
  for (const [what, batch] of Object.entries(TEXT_IDS))
    it(`stores nothing that is misplaced among ids that are texts: ${what}`, async () => {
      const { process, loadMany } = start(memoryWorld(), batch as Batch);
      const values = await loadMany(["a", "b"]);
      await settle();
      const isMisplaced = values.map((value, index) => (value as Film).id !== ["a", "b"][index]);
      expect(refused(process)).toHaveLength(isMisplaced.filter(Boolean).length);
      expect(refused(process).length).toBeGreaterThan(0);
    });

  it("remembers that the ids of its values are those that it is asked for", async () => {
    let batch: Batch = (ids) => ids.map(film);
    const { process, loadMany } = start(memoryWorld(), (ids) => batch(ids));
    await loadMany(["a"]);
    batch = () => [film("z")];
    await loadMany(["b"]);
    expect(refused(process)).toHaveLength(1);
  });

  const UNRELATED: Readonly<
    Record<string, readonly [ids: readonly unknown[], batch: (ids: readonly never[]) => unknown[], options?: object]>
  > = {
    "by a slug": [["matrix", "heat"], (ids) => ids.map((_, index) => film(`id-${index}`))],
    "by a slug, with numbers as ids": [["matrix", "heat"], (ids) => ids.map((_, index) => film(index))],
    "by the id of another type, most of which are others": [[1, 2, 3], () => [film(1), film(7), film(8)]],
    "by the id of another type, one at a time": [[1], () => [film(7)]],
    "by the id of another type, as said by `idOf: false`": [[1, 2], () => [film(2), film(1)], { idOf: false }],
    "by the id of another type, as said by `idOf`": [
      [1, 2],
      (ids) => ids.map((user, index) => ({ id: ids.length - index, user })),
      { idOf: ({ user }: { user: Id }) => user },
    ],
    "as text for numbers": [[1, 2], (ids) => ids.map((id) => film(String(id)))],
    "of objects": [
      [
        { id: 1, locale: "de" },
        { id: 2, locale: "de" },
      ],
      (ids) => ids.map(({ id }) => film(id)),
    ],
    "without an id": [[1, 2], (ids) => ids.map(() => ({ title: "a" }))],
    "that are lists, texts and missing": [[1, 2, 3, 4], () => [[film(9)], "a", null, undefined]],
    "whose ids are missing": [[1, 2], () => [{ id: null }, { id: undefined }]],
    "with ids of a class": [[1], () => [{ id: { toString: () => "9" } }]],
  };
  for (const [what, [ids, batch, options]] of Object.entries(UNRELATED))
    it(`is trusted where nothing shows that a value is misplaced: values ${what}`, async () => {
      const { process, loadMany } = start(memoryWorld(), batch as never, options);
      await loadMany(ids as never);
      await settle();
      expect(
        refused(process).filter(
          (event) => "error" in event && (event.error as { code: string }).code === "CACHED_VALUE_MISPLACED",
        ),
      ).toEqual([]);
    });

  it("is compared by `idOf` whatever the ids look like", async () => {
    const { process, loadMany } = start(memoryWorld(), () => [{ owner: "z" }], {
      idOf: ({ owner }: { owner: Id }) => owner,
    });
    await loadMany(["a"]);
    expect(refused(process)).toHaveLength(1);
  });

  it("is refused with an `idOf` that is neither a function nor false", () => {
    const { cache } = memoryWorld().process("type Query { a: Int }", {});
    const create = (idOf: unknown) =>
      (cache as Cache).loader({ name: "Other", maxAge: 60, batch: async () => [], idOf: idOf as never });
    for (const idOf of [true, "id", null]) expect(() => create(idOf)).toThrow("`idOf`: expected a function or false");
  });
});

describe("a guard", () => {
  it("gets ids that it cannot change outside of production, and is ignored if it has changed them", async () => {
    for (const env of ["test", "production"]) {
      vi.stubEnv("NODE_ENV", env);
      const exists = { has: async (ids: readonly Id[]) => (ids as Id[]).reverse().map((id) => id !== 1) };
      const { loadMany } = start(memoryWorld(), (ids) => ids.map(film), { exists });
      expect(await loadMany([3, 1]), env).toEqual([film(3), film(1)]);
    }
  });

  it("is ignored if it returns fewer answers than it was asked for", async () => {
    const exists = { has: async (ids: readonly Id[]) => ids.slice(1).map(() => false) };
    const { loadMany } = start(memoryWorld(), (ids) => ids.map(film), { exists });
    expect(await loadMany([3, 1])).toEqual([film(3), film(1)]);
  });
});
