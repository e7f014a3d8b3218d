import { gate, settle } from "@graphql-cached/testing";
import { describe, expect, it, vi } from "vitest";
import { withHeldWakes } from "../../support/held-wakes.js";
import { dataOf, memoryWorld, redisWorld, waitForStores } from "../../support/world.js";

/** Long enough for new connections on a busy machine. */
const options = { storage: { storeTimeoutMs: 5_000 } };
const eventually = <T>(check: () => T): Promise<T> => vi.waitFor(check, { timeout: 10_000, interval: 5 });

const typeDefs = /* GraphQL */ `
  type Query {
    byKey(id: ID!): Int @cached(maxAge: 60)
    byResult: [Movie!] @cached(maxAge: 60, tags: ["Movie:{$result[].id}"])
  }
  type Movie { id: ID! version: Int }
`;
const queries = [
  ["key", "{ byKey(id: 7) }", (version: number) => ({ byKey: version })],
  ["tag of the result", "{ byResult { version } }", (version: number) => ({ byResult: [{ version }] })],
] as const;

describe.each([
  ["the memory store", async () => memoryWorld()],
  ["Redis", redisWorld],
] as const)("a late wake-up message (%s)", (_, makeWorld) => {
  it.each(queries)("is not taken for the current load after an invalidation by %s", async (by, query, versioned) => {
    const world = await makeWorld();
    const state = { version: 1, loads: 0, gates: [gate(), gate()] };
    const load = async <T>(toResult: (version: number) => T): Promise<T> => {
      const { version } = state;
      await state.gates[state.loads++]?.passed;
      return toResult(version);
    };
    const byKey = () => load((version) => version);
    const resolvers = { Query: { byKey, byResult: () => load((version) => [{ id: 7, version }]) } };
    const { store, held, state: reader } = withHeldWakes(world.store());
    const loading = world.process(typeDefs, resolvers, options);
    const reading = world.process(typeDefs, resolvers, { ...options, store } as never);

    const first = dataOf(loading.ask(query));
    await eventually(() => expect(state.loads).toBe(1));
    const waited = dataOf(reading.ask(query));
    await eventually(() => expect(reader.busy).toBeGreaterThan(0));
    state.gates[0]?.open();
    expect(await first).toEqual(versioned(1));
    await waitForStores(loading);
    await eventually(() => expect(held).not.toHaveLength(0));
    // The reader finds the value by polling.
    expect(await waited).toEqual(versioned(1));

    state.version = 2;
    // For a result tag as well, the entry itself has to go, so that the next load is leased anew.
    await loading.cache.invalidateTags(["Movie:7"]);
    await loading.cache.invalidate(
      by === "key" ? { coordinate: "Query.byKey", args: { id: 7 } } : { coordinate: "Query.byResult", args: {} },
    );
    const second = dataOf(loading.ask(query));
    await eventually(() => expect(state.loads).toBe(2));
    const busyBefore = reader.busy;
    const late = dataOf(reading.ask(query));
    await eventually(() => expect(reader.busy).toBeGreaterThan(busyBefore));
    for (const wake of held.splice(0)) reader.wake(...wake);
    await settle();
    state.gates[1]?.open();
    expect([await late, await second, state.loads]).toEqual([versioned(2), versioned(2), 2]);
  });
});
