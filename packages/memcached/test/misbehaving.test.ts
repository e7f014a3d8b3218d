import { memcachedStore } from "@graphql-cached/memcached";
import { FakeClock, gate } from "@graphql-cached/testing";
import { MemcacheClient } from "memcache-client";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { MemcachedLab } from "../../../test/support/memcached-lab.js";
import { type LabNode, until } from "../../../test/support/server-lab.js";
import { dataOf, memoryWorld, type Process } from "../../../test/support/world.js";

const typeDefs = 'type Query { top: String @cached(maxAge: 60) tagged: String @cached(maxAge: 60, tags: ["T"]) }';

const BUDGET_MS = 100;
/** On a busy machine the store would otherwise be bypassed, and nothing leased or stored. */
const PATIENT = { storage: { storeTimeoutMs: 5_000 } };

describe("A misbehaving memcached", () => {
  const lab = new MemcachedLab();
  const clients: MemcacheClient[] = [];
  let node: LabNode;
  let client: MemcacheClient;
  beforeAll(async () => {
    node = await lab.standalone();
    client = connect(node);
  });
  afterAll(async () => {
    for (const each of clients) each.shutdown();
    await lab.stop();
  });
  beforeEach(() => client.cmd("flush_all"));

  function connect({ host, port }: LabNode): MemcacheClient {
    const client = new MemcacheClient({ server: `${host}:${port}`, noDelay: true, cmdTimeout: 5_000 });
    clients.push(client);
    return client;
  }

  function createSite(): { world: ReturnType<typeof memoryWorld>; state: { loads: number; loadGate?: Promise<void> } } {
    return { world: memoryWorld(() => memcachedStore({ client })), state: { loads: 0 } };
  }

  /** Starts a process on the store of `site`. Its loads return their number, followed by `text`. */
  function startProcess(
    { world, state }: ReturnType<typeof createSite>,
    text = "",
    options: object = PATIENT,
  ): Process {
    const load = async (): Promise<string> => {
      const nth = ++state.loads;
      await state.loadGate;
      return `${nth}${text}`;
    };
    return world.process(typeDefs, { Query: { top: load, tagged: load } }, options);
  }

  const stored = ({ events }: Process): Promise<void> =>
    until("the value is stored", () => events.some((event) => event.name === "write.finished"));

  it("lets two processes on one store load a key once", async () => {
    const shared = createSite();
    const loadGate = gate();
    shared.state.loadGate = loadGate.passed;
    const results = [startProcess(shared), startProcess(shared)].map((each) => dataOf(each.ask("{ top tagged }")));
    await until("the loads run", () => shared.state.loads === 2);
    loadGate.open();
    const [first, second] = await Promise.all(results);
    expect(first).toEqual(second);
    expect(shared.state.loads).toBe(2);
  });

  it("serves no value to others that was invalidated during its load, by tag or by key", async () => {
    for (const invalidate of [
      (cache: Process["cache"]) => cache.invalidateTags(["T"]),
      (cache: Process["cache"]) => cache.invalidate({ coordinate: "Query.tagged", args: {} }),
    ]) {
      await client.cmd("flush_all");
      const shared = createSite();
      const [loader, writer] = [startProcess(shared), startProcess(shared)];
      const loadGate = gate();
      shared.state.loadGate = loadGate.passed;
      const result = dataOf(loader.ask("{ tagged }"));
      await until("the load runs", () => shared.state.loads === 1);
      await invalidate(writer.cache);
      loadGate.open();
      expect(await result).toEqual({ tagged: "1" });
      await stored(loader);
      for (const each of [loader, writer]) expect(await dataOf(each.ask("{ tagged }"))).toEqual({ tagged: "2" });
    }
  });

  it("does not store a late value after memcached was flushed during the load", async () => {
    const shared = createSite();
    const one = startProcess(shared);
    const loadGate = gate();
    shared.state.loadGate = loadGate.passed;
    const result = dataOf(one.ask("{ top tagged }"));
    await until("the loads run", () => shared.state.loads === 2);
    await client.cmd("flush_all");
    loadGate.open();
    expect(await result).toEqual({ top: "1", tagged: "2" });
    await until(
      "both writes have finished",
      () => one.events.filter((event) => event.name === "write.finished").length === 2,
    );
    for (const event of one.events) if (event.name === "write.finished") expect(event.isStored).toBe(false);
    expect(await dataOf(one.ask("{ top }"))).toEqual({ top: "3" });
  });

  it("does not store a late value after memcached restarted during the load", async () => {
    const own = await lab.standalone();
    const world = memoryWorld(() => memcachedStore({ client: connect(own) }));
    const shared = { world, state: { loads: 0 } as ReturnType<typeof createSite>["state"] };
    const one = startProcess(shared);
    const loadGate = gate();
    shared.state.loadGate = loadGate.passed;
    const result = dataOf(one.ask("{ top }"));
    await until("the load runs", () => shared.state.loads === 1);
    await own.kill();
    await own.restart();
    loadGate.open();
    expect(await result).toEqual({ top: "1" });
    await stored(one);
    expect(one.events.find((event) => event.name === "write.finished")).toMatchObject({ isStored: false });
    expect(await dataOf(one.ask("{ top }"))).toEqual({ top: "2" });
  });

  it("costs a request no more than its time budget while memcached is frozen, and serves hits afterwards", async () => {
    const clock = new FakeClock();
    const one = startProcess(createSite(), "", { testing: { clock }, storage: { storeTimeoutMs: BUDGET_MS } });
    const hits = (): number => one.outcomes().hit ?? 0;
    const untilHit = (before = hits()): Promise<void> =>
      until("a read is a hit", async () => (await one.ask("{ top }"), hits() > before));
    await untilHit();
    node.pause();
    try {
      for (let nth = 0; nth < 8; nth++) {
        let isAnswered = false;
        const answer = dataOf(one.ask("{ top }")).finally(() => {
          isAnswered = true;
        });
        let elapsedMs = 0;
        for (; !isAnswered; elapsedMs += BUDGET_MS / 4) await clock.advance(BUDGET_MS / 4);
        expect(await answer).toHaveProperty("top");
        // One budget to read, and one to acquire a lease.
        expect(elapsedMs).toBeLessThanOrEqual(2 * BUDGET_MS);
      }
    } finally {
      node.resume();
    }
    // The breaker admits a probe.
    await clock.advance(5_000);
    await untilHit();
    expect(one.outcomes()).not.toHaveProperty("bypassed(WAIT_TIMEOUT)");
  });

  it("keeps the value of another program under a cache key, and resolves the field uncached", async () => {
    const shared = createSite();
    const one = startProcess(shared);
    const keysRead: string[] = [];
    const recordingStore = memcachedStore({
      client: { ...bound(client), gets: (keys) => (keysRead.push(...keys), client.gets(keys)) },
    });
    const other = memoryWorld(() => recordingStore).process(
      typeDefs,
      {
        Query: { top: () => "mine", tagged: () => "" },
      },
      { memory: false },
    );
    await other.ask("{ top }");
    await stored(other);
    const key = keysRead.find((name) => name.includes(":Query.top:")) as string;
    await client.set(key, "garbage", { lifetime: 0 });
    expect(await dataOf(other.ask("{ top }"))).toEqual({ top: "mine" });
    expect(other.outcomes()).toEqual({ loaded: 1, "bypassed(KEY_COLLISION)": 1 });
    expect(await client.get(key)).toMatchObject({ value: "garbage" });
    expect(await dataOf(one.ask("{ top }"))).toEqual({ top: "1" });
  });

  it("loads a value that is too large each time, without waiting", async () => {
    const shared = createSite();
    const one = startProcess(shared, "x".repeat(1_010_000));
    await one.ask("{ top }");
    await stored(one);
    await one.ask("{ top }");
    expect(one.outcomes()).toEqual({ loaded: 1, "bypassed(UNCACHEABLE)": 1 });
    expect(shared.state.loads).toBe(2);
  });

  it("serves what is in memory while the server with the log is down", async () => {
    const [a, b] = [await lab.standalone(), await lab.standalone()];
    const servers = { a: connect(a), b: connect(b) };
    const world = memoryWorld(() => memcachedStore({ servers }));
    let loads = 0;
    const one = world.process(
      "type Query { top: String @cached(maxAge: 60) item(id: Int): String @cached(maxAge: 60) }",
      { Query: { top: () => `${++loads}`, item: () => "" } },
      PATIENT,
    );
    await until("it is in memory", async () => (await one.ask("{ top }"), (one.outcomes().hit ?? 0) > 2));
    const before = loads;
    await a.kill();
    for (let id = 0; id < 10; id++) {
      expect(await dataOf(one.ask("{ top }"))).toEqual({ top: `${before}` });
      // Items are on either of the servers.
      expect(await dataOf(one.ask(`{ top item(id: ${id}) }`))).toEqual({ top: `${before}`, item: "" });
    }
    expect(loads).toBe(before);
  });

  it("fails only the keys of a server that is down", async () => {
    const [a, b] = [await lab.standalone(), await lab.standalone()];
    const servers = { a: connect(a), b: connect(b) };
    const store = memcachedStore({ servers });
    store.open(
      {
        wakeChannel: "two:wakeChannel",
        reports: "two:reports",
        clock: "two:clock",
      },
      { wake: () => undefined },
    );
    const keys = Array.from({ length: 20 }, (_, nth) => `two:${nth}`);
    await store.read(keys);
    await a.kill();
    const { readings } = await store.read(keys);
    const kinds = readings.map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set(["read", "failed"]));
    await b.kill();
    await expect(store.read(keys)).rejects.toThrow();
  });
});

const bound = (client: MemcacheClient) => ({
  gets: (keys: string[]) => client.gets(keys),
  add: client.add.bind(client),
  cas: client.cas.bind(client),
  cmd: client.cmd.bind(client),
});
