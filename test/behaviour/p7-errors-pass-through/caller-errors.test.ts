import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { GraphQLError } from "graphql";
import { memoryStore } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { ANSWERS, FAILURES, REFUSALS } from "../../support/thrown-errors.js";
import { dataOf, memoryWorld, onEachStore, type Process } from "../../support/world.js";

const typeDefs = "type Query { top: Int @cached(maxAge: 60) }";
const patient = { storage: { storeTimeoutMs: 10_000 } };

interface User {
  readonly mayRead: boolean;
}

const forbidden = (code = "FORBIDDEN"): GraphQLError => new GraphQLError("not for you", { extensions: { code } });

/** A source that refuses callers without permission once its gate is open. */
function createSource(error: () => unknown = forbidden) {
  const source = { loads: 0, running: 0, maxRunning: 0, loadGate: gate() };
  const top = async (_: unknown, __: unknown, { mayRead }: User): Promise<number> => {
    const load = ++source.loads;
    source.running++;
    source.maxRunning = Math.max(source.maxRunning, source.running);
    await source.loadGate.passed;
    source.running--;
    if (!mayRead) throw error();
    return load;
  };
  return { source, resolvers: { Query: { top } } };
}

const errorOf = async ({ ask }: Process, mayRead = false): Promise<unknown> =>
  (await ask("{ top }", { mayRead })).errors?.[0]?.message;

/** Ten who may read, at the same time. */
const readers = ({ ask }: Process): Promise<unknown>[] =>
  Array.from({ length: 10 }, () => dataOf(ask("{ top }", { mayRead: true })));

const suspensions = ({ events }: Process): number => events.filter(({ name }) => name === "sharing.suspended").length;

onEachStore("an error that concerns one caller only", (world) => {
  it.each(["FORBIDDEN", "UNAUTHENTICATED", "PERMISSION_DENIED"])(
    "reaches that caller alone, and another one loads for all others in every process: %s",
    async (code) => {
      const { source, resolvers } = createSource(() => forbidden(code));
      const shared = world();
      const start = () => shared.process(typeDefs, resolvers, patient);
      const [first, second] = [start(), start()];
      const refused = errorOf(first);
      const others = readers(first);
      await vi.waitFor(() => expect(source.loads).toBe(1));
      others.push(...readers(first), ...readers(second));
      await settle();
      source.loadGate.open();
      expect(await refused).toBe("not for you");
      expect(await Promise.all(others)).toEqual(Array(30).fill({ top: 2 }));
      expect(source.loads).toBe(2);
      expect(suspensions(first) + suspensions(second)).toBe(0);
    },
  );

  it.each([
    ["for callers with permission", false],
    ["for callers with permission, although their client hangs up once it has it", true],
  ])("does not keep the value from being stored %s", async (_, hangsUp) => {
    const { source, resolvers } = createSource();
    source.loadGate.open();
    const process = world().process(typeDefs, resolvers, patient);
    const readByStrangers = async (): Promise<void> => {
      for (let stranger = 0; stranger < 3; stranger++) await errorOf(process);
    };
    await readByStrangers();
    const client = new AbortController();
    const context = { mayRead: true, request: { signal: client.signal } };
    expect(await dataOf(process.ask("{ top }", context))).toEqual({ top: 4 });
    if (hangsUp) client.abort();
    const isStored = () => process.events.some((event) => event.name === "write.finished" && event.isStored);
    await vi.waitFor(() => expect(isStored()).toBe(true), { timeout: 10_000 });
    const { loads } = source;
    await readByStrangers();
    for (let read = 0; read < 10; read++) await dataOf(process.ask("{ top }", { mayRead: true }));
    expect(source.loads).toBe(loads);
  });

  it("lets each caller load for itself after two in a row, and is reported once", async () => {
    const warn = vi.fn();
    const { source, resolvers } = createSource();
    const options = {
      ...patient,
      loads: { errorBackoffMs: 60_000 },
      privacy: { warnOnContextReads: false },
      logger: { info: () => undefined, warn },
    };
    const process = world().process(typeDefs, resolvers, options);
    const refused = Array.from({ length: 20 }, () => errorOf(process));
    for (const loads of [1, 2]) {
      await vi.waitFor(() => expect(source.loads).toBe(loads));
      await settle();
      expect(source.loads).toBe(loads);
      const { loadGate } = source;
      source.loadGate = gate();
      loadGate.open();
    }
    // The remaining 18 load at the same time.
    await vi.waitFor(() => expect(source.running).toBe(18));
    source.loadGate.open();
    expect(await Promise.all(refused)).toEqual(Array(20).fill("not for you"));
    expect(source.loads).toBe(20);
    expect(suspensions(process)).toBe(1);
    expect(warn).toHaveBeenCalledTimes(1);
    expect(warn.mock.calls[0]?.[0]).toContain("`Query.top`: two loads of a key in a row failed");
  });
});

describe("an error that concerns one caller only", () => {
  it("lets each caller load for itself after two in a row while the store is unavailable", async () => {
    const { source, resolvers } = createSource();
    const store = chaosStore(memoryStore());
    store.chaos.mode = "throws";
    const process = memoryWorld().process(typeDefs, resolvers, { store });
    for (const loads of [1, 2]) {
      const refused = errorOf(process);
      while (source.loads < loads) await settle();
      source.loadGate.open();
      expect(await refused).toBe("not for you");
      source.loadGate = gate();
    }
    const refused = Array.from({ length: 20 }, () => errorOf(process));
    await settle();
    expect(source.running).toBe(20);
    source.loadGate.open();
    expect(await Promise.all(refused)).toEqual(Array(20).fill("not for you"));
    expect(suspensions(process)).toBe(1);
  });

  it("is shared again when a load has succeeded after the pause", async () => {
    const clock = new FakeClock();
    const { source, resolvers } = createSource();
    source.loadGate.open();
    const process = memoryWorld(() => memoryStore({ clock })).process(typeDefs, resolvers, { testing: { clock } });
    for (let nth = 0; nth < 2; nth++) {
      expect(await errorOf(process)).toBe("not for you");
      await settle();
    }
    await clock.advance(1_001);
    const before = source.loads;
    expect(await Promise.all(readers(process))).toEqual(Array(10).fill({ top: before + 1 }));
    expect(source.loads).toBe(before + 1);
  });

  it("leaves no back-off after a refresh, and keeps the stale value", async () => {
    const clock = new FakeClock();
    const stale = "type Query { top: Int @cached(maxAge: 1, staleWhileRevalidate: 60) }";
    const { source, resolvers } = createSource();
    source.loadGate.open();
    const process = memoryWorld(() => memoryStore({ clock })).process(stale, resolvers, { testing: { clock } });
    await dataOf(process.ask("{ top }", { mayRead: true }));
    await clock.advance(2_000);
    for (let nth = 0; nth < 3; nth++) {
      expect(await dataOf(process.ask("{ top }", { mayRead: false }))).toEqual({ top: 1 });
      await settle();
    }
    expect(source.loads).toBe(4);
    expect(await dataOf(process.ask("{ top }", { mayRead: true }))).toEqual({ top: 1 });
    await settle();
    expect(await dataOf(process.ask("{ top }", { mayRead: true }))).toEqual({ top: 5 });
  });

  it.each(REFUSALS)(
    "is not shared with a caller who may have the value, in any process, nor kept: %s",
    async (_, make) => {
      const { source, resolvers } = createSource(make);
      const shared = memoryWorld();
      const start = () => shared.process(typeDefs, resolvers, patient);
      const [first, second] = [start(), start()];
      const refused = first.ask("{ top }", { mayRead: false });
      await vi.waitFor(() => expect(source.loads).toBe(1));
      const others = [first, second].map(({ ask }) => dataOf(ask("{ top }", { mayRead: true })));
      await settle();
      source.loadGate.open();
      expect((await refused).errors).toHaveLength(1);
      expect(await Promise.all(others)).toEqual([{ top: 2 }, { top: 2 }]);
      expect(await dataOf(second.ask("{ top }", { mayRead: false }))).toEqual({ top: 2 });
    },
  );

  it.each([...ANSWERS, ...FAILURES])(
    "is distinguished from one that concerns all of them, which is shared: %s",
    async (_, make) => {
      const { source, resolvers } = createSource(make);
      source.loadGate.open();
      const process = memoryWorld().process(typeDefs, resolvers);
      const answers = await Promise.all([false, true, false].map((mayRead) => process.ask("{ top }", { mayRead })));
      expect(answers.map(({ errors }) => errors?.length)).toEqual([1, 1, 1]);
      expect(source.loads).toBe(1);
    },
  );

  it("is recognised by the option isCallerError", async () => {
    const { source, resolvers } = createSource(() => new Error("over quota"));
    const isCallerError = (error: unknown, coordinate: string): boolean =>
      coordinate === "Query.top" && error instanceof Error && error.message === "over quota";
    const process = memoryWorld().process(typeDefs, resolvers, { loads: { isCallerError } });
    const refused = errorOf(process);
    const other = dataOf(process.ask("{ top }", { mayRead: true }));
    await settle();
    source.loadGate.open();
    expect(await refused).toBe("over quota");
    expect(await other).toEqual({ top: 2 });
  });

  it("is shared like any other error if isCallerError returns false or throws", async () => {
    for (const isCallerError of [() => false, () => Reflect.get(undefined as never, "status") as boolean]) {
      const { source, resolvers } = createSource();
      const process = memoryWorld().process(typeDefs, resolvers, { loads: { isCallerError } });
      const refused = errorOf(process);
      const other = errorOf(process, true);
      await settle();
      source.loadGate.open();
      expect(await Promise.all([refused, other])).toEqual(["not for you", "not for you"]);
      expect(source.loads).toBe(1);
    }
  });
});
