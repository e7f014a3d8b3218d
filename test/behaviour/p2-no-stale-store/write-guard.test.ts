import { FakeClock, gate } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, waitForStores } from "../../support/world.js";

const typeDefs = `type Query { top: Int @cached(maxAge: 600, tags: ["Top"]) }`;

/** Two processes whose clocks run separately. The server's clock is that of the reader. */
function createProcesses(writeGuardMs?: number) {
  const clocks = { writer: new FakeClock(), reader: new FakeClock() };
  const store = memoryStore({ clock: clocks.reader });
  const world = memoryWorld(() => store);
  const source = { value: 1, loads: 0 };
  const resolvers = {
    Query: {
      top: () => {
        source.loads++;
        return source.value;
      },
    },
  };
  const create = (clock: FakeClock) =>
    world.process(typeDefs, resolvers, {
      testing: { clock },
      invalidation: writeGuardMs === undefined ? {} : { writeGuardMs },
    });
  return { clocks, source, writer: create(clocks.writer), reader: create(clocks.reader) };
}

type Processes = ReturnType<typeof createProcesses>;

/** Begins a write. The returned function lets it end, and resolves when `mutate` has. */
async function beginWrite({ writer }: Processes, target: object): Promise<() => Promise<void>> {
  const [begun, committed] = [gate(), gate()];
  const write = writer.cache.mutate(target, () => {
    begun.open();
    return committed.passed;
  });
  await begun.passed;
  return () => {
    committed.open();
    return write;
  };
}

const TARGETS = [
  ["a key", { entries: [{ coordinate: "Query.top" }] }],
  ["a tag", { tags: ["Top"] }],
] as const;

describe.each(TARGETS)("the mark of a write, set by %s", (_kind, target) => {
  it("ends three seconds after its process has died", async () => {
    const processes = createProcesses();
    const { clocks, source, reader } = processes;
    await beginWrite(processes, target);
    await clocks.reader.advance(2_999);
    for (let turn = 0; turn < 2; turn++) await dataOf(reader.ask("{ top }"));
    expect(source.loads).toBe(2);
    await clocks.reader.advance(1);
    for (let turn = 0; turn < 2; turn++) await dataOf(reader.ask("{ top }"));
    expect(source.loads).toBe(3);
  });

  it("lasts as long as the write if its process lives", async () => {
    const processes = createProcesses(1_000);
    const { clocks, source, reader } = processes;
    const end = await beginWrite(processes, target);
    for (let elapsedMs = 0; elapsedMs < 10_000; elapsedMs += 200) {
      await clocks.writer.advance(200);
      await clocks.reader.advance(200);
    }
    for (let turn = 0; turn < 2; turn++) await dataOf(reader.ask("{ top }"));
    expect(source.loads).toBe(2);
    source.value = 2;
    await end();
    expect(await dataOf(reader.ask("{ top }"))).toEqual({ top: 2 });
  });

  it("is set again after a pause of its process, and what was stored meanwhile is removed", async () => {
    const processes = createProcesses(1_000);
    const { clocks, source, reader } = processes;
    await beginWrite(processes, target);
    await clocks.reader.advance(5_000);
    await dataOf(reader.ask("{ top }"));
    await waitForStores(reader);
    expect(await dataOf(reader.ask("{ top }"))).toEqual({ top: 1 });
    expect(source.loads).toBe(1);
    await clocks.writer.advance(5_000);
    source.value = 2;
    expect(await dataOf(reader.ask("{ top }"))).toEqual({ top: 2 });
  });
});
