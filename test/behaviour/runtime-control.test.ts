import { FakeClock, settle } from "graphql-cached/testing";
import { expect, it } from "vitest";
import { VersionedSource } from "../support/versioned-source.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World, waitForStores } from "../support/world.js";

const FIELD = "type Query { value(id: ID!): Int @cached(maxAge: 60) }";
const COORDINATE = "Query.value";

class Source extends VersionedSource {
  start(world: World, options: object = {}): Process {
    return world.process(FIELD, { Query: { value: this.load } }, options);
  }
}

const read = async ({ ask }: Process, query = '{ value(id: "7") }'): Promise<unknown> =>
  ((await dataOf(ask(query))) as { value: unknown }).value;

onEachStore("a field that is switched off", (world) => {
  it("is loaded by every read in every process, is not stored, and has its old entries again when it is on", async () => {
    const shared = world();
    const source = new Source();
    const [one, other] = [source.start(shared), source.start(shared)];
    expect(await read(one)).toBe(1);
    await waitForStores(one);
    await one.cache.setMode("off", { coordinate: COORDINATE });
    source.version = 2;
    // The other process learns it with its first read.
    expect([await read(one), await read(other), await read(other), source.loads]).toEqual([2, 2, 2, 4]);
    expect(other.outcomes()).toEqual({ "bypassed(MODE_OFF)": 2 });
    await one.cache.setMode("on", { coordinate: COORDINATE });
    expect([await read(one), source.loads]).toEqual([1, 4]);
    await expect.poll(() => read(other), { timeout: 2_000 }).toBe(1);
  });
});
