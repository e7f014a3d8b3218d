import { settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { fleet, KINDS } from "../../support/shop.js";

const LAG_MS = 2_000;

/** A process on a replica of a database that lags behind. */
function start(replicaLagMs = LAG_MS) {
  const { clock, source, world } = fleet(0);
  return { clock, source, ...source.start(world, { testing: { clock }, invalidation: { replicaLagMs } }) };
}

describe("replicaLagMs", () => {
  it.each(Object.entries(KINDS))(
    "keeps what is read from a lagging replica from being stored after an invalidation of %s, and stores everything else",
    async (kind, { what, invalidate }) => {
      const { cache, clock, source, read } = start();
      await read(what);
      await settle();
      await invalidate(cache);
      // What the replica returns until it has got the write.
      expect([await read(what), await read("other")]).toEqual([1, 1]);
      await settle();
      const { loads } = source;
      if (kind !== "everything") expect([await read("other"), source.loads]).toEqual([1, loads]);
      source.version = 2;
      await clock.advance(LAG_MS - 1);
      expect(await read(what)).toBe(2);
      await settle();
      source.version = 3;
      // Tags of the result are checked when it is stored, by the time of the store.
      await clock.advance(1_001);
      expect(await read(what)).toBe(3);
      await settle();
      source.version = 4;
      expect(await read(what)).toBe(3);
    },
  );

  it("does so from the end of cache.mutate without a gap", async () => {
    const { cache, clock, source, read, outcomes } = start();
    await cache.mutate({ entries: [{ coordinate: "Query.field", args: { id: 7 } }] }, () => undefined);
    expect(await read("field")).toBe(1);
    expect(outcomes()).toEqual({ "bypassed(WRITE_IN_PROGRESS)": 1 });
    source.version = 2;
    await clock.advance(LAG_MS + 1);
    expect([await read("field"), await read("field")]).toEqual([2, 2]);
    expect(outcomes()).toMatchObject({ "bypassed(WRITE_IN_PROGRESS)": 1, loaded: 1 });
  });

  it("does nothing by default", async () => {
    const { cache, source, read } = start(0);
    await read("field");
    await cache.invalidate({ coordinate: "Query.field" });
    await read("field");
    await settle();
    expect([await read("field"), source.loads]).toEqual([1, 2]);
  });
});
