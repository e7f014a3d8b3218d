import { gate, settle } from "graphql-cached/testing";
import { describe, expect, it, vi } from "vitest";
import { memoryWorld } from "../support/world.js";

interface Film {
  title: string;
  cast: { name: string }[];
}

const heat = (): Film => ({ title: "Heat", cast: [{ name: "Pacino" }, { name: "De Niro" }] });

const worlds = {
  /** One process that reads and loads. */
  sameProcess() {
    const world = memoryWorld();
    const reader = world.process("type Query { unused: Int }", {});
    return { reader, holder: reader };
  },
  /** One process that reads while another one loads. */
  twoProcesses() {
    const world = memoryWorld();
    const [holder, reader] = [0, 1].map(() => world.process("type Query { unused: Int }", {})) as [
      ReturnType<typeof world.process>,
      ReturnType<typeof world.process>,
    ];
    return { reader, holder };
  },
};

function change(value: unknown): unknown {
  (value as { cast?: Film["cast"] }).cast?.push({ name: "Kilmer" });
  return value;
}

/**
 * Has `count` requests wait for one load of `value`, half of them from another tick on. Returns what each
 * got, and how often JSON was parsed for them.
 */
async function waitTogether(where: keyof typeof worlds, value: () => unknown, count = 8) {
  const { reader, holder } = worlds[where]();
  const { passed, open } = gate();
  let loads = 0;
  const options = {
    name: "Film",
    batch: async (ids: readonly number[]) => {
      loads += ids.length;
      await passed;
      return ids.map(value);
    },
    maxAge: 60,
  };
  const heldBy = holder.cache.loader<number, unknown, object>(options);
  const films = holder === reader ? heldBy : reader.cache.loader<number, unknown, object>(options);
  const holding = heldBy({}).load(1);
  await settle();
  // Each of them changes what it gets.
  const ask = (): Promise<unknown>[] => Array.from({ length: count / 2 }, () => films({}).load(1).then(change));
  const first = ask();
  await settle();
  const waiting = [...first, ...ask()];
  await settle();
  const parse = vi.spyOn(JSON, "parse");
  try {
    open();
    const read = await Promise.all(waiting);
    const parsed = parse.mock.calls.length;
    await holding;
    return { read, parsed, loads };
  } finally {
    parse.mockRestore();
  }
}

describe.each([
  // For the request that has loaded it, and for all others.
  ["sameProcess", 2],
  // For the request that has loaded it, and in the other process for the first of each tick and for all others of it.
  ["twoProcesses", 5],
] as const)("requests that wait for one load (%s)", (where, parses) => {
  it("get equal objects of their own from a value that is not parsed for each of them", async () => {
    const { read, parsed, loads } = await waitTogether(where, heat);
    expect(loads).toBe(1);
    expect(read).toStrictEqual(Array.from({ length: 8 }, () => change(heat())));
    expect(new Set(read).size).toBe(8);
    expect(new Set((read as Film[]).map(({ cast }) => cast)).size).toBe(8);
    expect(new Set((read as Film[]).map(({ cast }) => cast[1])).size).toBe(8);
    expect(parsed).toBe(parses);
  });

  it("get a value each that is decoded again if it has more than JSON", async () => {
    const dated = { at: new Date(0), tags: new Set(["a"]) };
    const { read } = await waitTogether(where, () => ({ at: new Date(0), tags: new Set(["a"]) }));
    expect(read).toStrictEqual(Array(8).fill(dated));
    expect(new Set((read as (typeof dated)[]).map(({ tags }) => tags)).size).toBe(8);
  });
});
