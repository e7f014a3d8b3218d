import { AsyncLocalStorage } from "node:async_hooks";
import { ApolloServer } from "@apollo/server";
import { gate, settle } from "@graphql-cached/testing";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it } from "vitest";
import { dataOf, onEachStore, type World, waitForStores } from "../support/world.js";

interface Viewer {
  userId?: string;
  tenant?: string;
}

const identify = (context: Viewer) => context.userId;
const PEOPLE = ["alice", "bob", "carol"];

onEachStore("the scope of a load", (world) => {
  describe("with one context object for all requests, and the user in an AsyncLocalStorage", () => {
    const session = new AsyncLocalStorage<string>();
    const own = { identify: () => session.getStore() };
    const privateLoader = (made: World, settings: object = {}) => {
      const batches: string[] = [];
      const { cache, events } = made.process("type Query { unused: Int }", {}, own);
      const notes = cache.loader<number, string, object>({
        name: "Note",
        scope: "PRIVATE",
        maxAge: 60,
        batch: async (ids) => {
          batches.push(`${session.getStore()}: ${ids.join()}`);
          await settle();
          return ids.map((id) => `note ${id} of ${session.getStore()}`);
        },
        ...settings,
      });
      return { notes, batches, events };
    };
    const context = {};

    it("loads each caller's ids of a PRIVATE loader for itself", async () => {
      const { notes, batches, events } = privateLoader(world());
      const read = (user: string): Promise<string[]> =>
        session.run(user, () => Promise.all([notes(context).load(1), notes(context).load(2)]));
      const expected = PEOPLE.map((user) => [`note 1 of ${user}`, `note 2 of ${user}`]);
      expect(await Promise.all(PEOPLE.map(read))).toEqual(expected);
      await waitForStores({ events }, 6);
      expect(await Promise.all(PEOPLE.map(read))).toEqual(expected);
      expect(batches).toEqual(PEOPLE.map((user) => `${user}: 1,2`));
    });

    it("loads each caller's ids of a PRIVATE loader without maxAge for itself", async () => {
      const { notes } = privateLoader(world(), { maxAge: 0 });
      const read = (user: string): Promise<string> => session.run(user, () => notes(context).load(1));
      for (let round = 0; round < 2; round++)
        expect(await Promise.all(PEOPLE.map(read))).toEqual(PEOPLE.map((user) => `note 1 of ${user}`));
    });

    it("remembers nothing of a PRIVATE loader for callers without an identity", async () => {
      const guests = new AsyncLocalStorage<string>();
      const { cache } = world().process("type Query { unused: Int }", {}, { identify: () => undefined });
      const carts = cache.loader<number, string, object>({
        name: "Cart",
        scope: "PRIVATE",
        maxAge: 60,
        batch: async (ids) => ids.map((id) => `cart ${id} of ${guests.getStore()}`),
      });
      for (const guest of ["one", "two"])
        expect(await guests.run(guest, () => carts(context).load(1))).toBe(`cart 1 of ${guest}`);
    });
  });

  /** `wall` is PUBLIC, and reads something that is not. */
  const walls = (made: World, wall: string, settings: object = {}) => {
    const outer = (_: unknown, __: object, viewer: Viewer) => publicNotes(viewer).load(1);
    const process = made.process(
      `type Query {
        wall: String ${wall}
        outer: String @cached(maxAge: 60)
        beside: String @cached(maxAge: 60)
        own: String @cached(maxAge: 60, scope: PRIVATE)
      }`,
      {
        Query: {
          wall: (_: unknown, __: object, viewer: Viewer) => notes(viewer).load(1),
          outer,
          beside: outer,
          own: (_: unknown, __: object, { userId }: Viewer) => `own of ${userId}`,
        },
      },
      { identify },
    );
    const notes = process.cache.loader<number, string, Viewer>({
      name: "Note",
      scope: "PRIVATE",
      maxAge: 60,
      batch: async (ids, { userId }) => ids.map((id) => `note ${id} of ${userId}`),
    });
    const publicNotes = process.cache.loader<number, string, Viewer>({
      name: "PublicNote",
      maxAge: 60,
      batch: async (ids, viewer) => (await notes(viewer).loadMany(ids)) as string[],
      ...settings,
    });
    return { ...process, notes, publicNotes };
  };

  it("gives the value of a PUBLIC field whose load reads a PRIVATE loader to its own caller only, and reports it", async () => {
    const { ask, events } = walls(world(), "@cached(maxAge: 60)");
    const read = async (userId: string) => dataOf(ask("{ wall }", { userId }));
    for (let round = 0; round < 2; round++) {
      const answers = await Promise.all(PEOPLE.map(read));
      expect(answers).toEqual(PEOPLE.map((userId) => ({ wall: `note 1 of ${userId}` })));
    }
    const refused = events.flatMap((event) => (event.name === "value.refused" ? [event] : []));
    expect(refused[0]).toMatchObject({ coordinate: "Query.wall", error: { code: "CACHED_SCOPE_NARROWED" } });
    expect(
      events.some(
        (event) => event.name === "entry.served" && event.coordinate === "Query.wall" && event.outcome === "hit",
      ),
    ).toBe(false);
  });

  it("gives the values of a PUBLIC loader that reads a PRIVATE one, and of fields around it, to their own callers only", async () => {
    const { ask, publicNotes } = walls(world(), "@cached(maxAge: 60)");
    for (const userId of [...PEOPLE, ...PEOPLE]) {
      const viewer = { userId };
      expect(await Promise.all([publicNotes(viewer).load(1), publicNotes(viewer).load(2)])).toEqual([
        `note 1 of ${userId}`,
        `note 2 of ${userId}`,
      ]);
      expect(await dataOf(ask("{ outer }", { userId }))).toEqual({ outer: `note 1 of ${userId}` });
    }
  });

  it("gives the value of a PRIVATE function that reads a PRIVATE value of another identity to its own caller only", async () => {
    const { cache, notes, publicNotes, events } = walls(world(), "");
    type Member = Viewer & { readonly tenant: string };
    const make = (name: string, who: "tenant" | "userId", read: (viewer: Viewer) => Promise<string>) =>
      cache.wrap({
        name,
        scope: "PRIVATE",
        maxAge: 60,
        context: (viewer: Member) => viewer,
        identify: (viewer: Member) => viewer[who],
        load: (viewer: Member) => read(viewer),
        key: () => 1,
      });
    const read = (viewer: Viewer) => notes(viewer).load(1);
    const pages = [
      make("page", "tenant", read),
      make("below", "tenant", (viewer) => publicNotes(viewer).load(1)),
      make("own", "userId", read),
    ];
    for (const userId of [...PEOPLE, ...PEOPLE])
      for (const page of pages) expect(await page({ userId, tenant: "acme" })).toBe(`note 1 of ${userId}`);
    const refused = events.flatMap((event) => (event.name === "value.refused" ? [event] : []));
    const ofPage = refused.filter(({ coordinate }) => coordinate === "page");
    expect(ofPage).toHaveLength(6);
    expect(ofPage[0]?.error.message).toBe(
      "`page`: the value is not cached: expected the load of a PRIVATE value to read those of its own identity only, got a read of `Note` of another one; let both have the same `identify`, or make that one PUBLIC with the identity in its key",
    );
    expect(refused.filter(({ coordinate }) => coordinate === "own")).toEqual([]);
  });

  const noKey = (): never => {
    throw new Error("no key");
  };
  it.each([
    ["cached", {}, "on"],
    ["switched off", {}, "off"],
    ["without a key for the id", { cacheKeyFn: noKey }, "on"],
  ] as const)(
    "gives the values of two PUBLIC fields whose loads read one id of a PUBLIC loader that reads a PRIVATE one to their own caller only (the loader is %s)",
    async (_, settings, mode) => {
      const { ask, cache } = walls(world(), "", settings);
      cache.setMode(mode, "PublicNote");
      for (const userId of [...PEOPLE, ...PEOPLE])
        expect(await dataOf(ask("{ outer beside }", { userId }))).toEqual({
          outer: `note 1 of ${userId}`,
          beside: `note 1 of ${userId}`,
        });
    },
  );

  it("stores nothing of a PUBLIC load that reads a PRIVATE value while another load of its batch does not", async () => {
    const { cache, events } = world().process("type Query { unused: Int }", {}, { identify });
    const secrets = cache.loader<number, string, Viewer>({
      name: "Secret",
      scope: "PRIVATE",
      maxAge: 60,
      batch: async (ids, { userId }) => ids.map((id) => `secret ${id} of ${userId}`),
    });
    const pages = cache.loader<number, string, Viewer>({
      name: "Page",
      maxAge: 60,
      batch: async (ids, viewer) => {
        const secret = await secrets(viewer).load(9);
        return ids.map((id) => (id === 2 ? secret : `page ${id}`));
      },
    });
    for (const userId of PEOPLE) {
      const loader = pages({ userId });
      expect(await Promise.all([loader.load(1), loader.load(2)])).toEqual(["page 1", `secret 9 of ${userId}`]);
    }
    expect(
      events.filter((event) => event.name === "entry.served" && event.coordinate === "Page" && event.outcome === "hit"),
    ).toEqual([]);
  });

  it("gives the value of a PUBLIC load that reads a PRIVATE loader of another cache to its own caller only", async () => {
    const { cache } = world().process("type Query { unused: Int }", {}, { identify });
    const notes = cache.loader<number, string, Viewer>({
      name: "Note",
      scope: "PRIVATE",
      maxAge: 60,
      batch: async (ids, { userId }) => ids.map((id) => `note ${id} of ${userId}`),
    });
    const wall = (_: unknown, __: object, viewer: Viewer) => notes(viewer).load(1);
    const { ask } = world().process(
      "type Query { wall: String @cached(maxAge: 60) }",
      { Query: { wall } },
      { identify },
    );
    for (const userId of [...PEOPLE, ...PEOPLE])
      expect(await dataOf(ask("{ wall }", { userId }))).toEqual({ wall: `note 1 of ${userId}` });
  });

  it("does not let proxies keep a response with the value of a narrowed load", async () => {
    const { schema, cache } = walls(
      world(),
      "@cached(maxAge: 60) @cacheControl(maxAge: 60)".replace(" @cacheControl(maxAge: 60)", ""),
    );
    const server = new ApolloServer<Viewer>({ schema, plugins: [cachedPlugin(cache)] });
    for (const userId of [...PEOPLE, ...PEOPLE]) {
      const { http } = await server.executeOperation({ query: "{ wall }" }, { contextValue: { userId } });
      expect(http.headers.get("cache-control") ?? "no-store").not.toContain("public");
    }
    await server.stop();
  });

  /** A resolver that sets the hint PRIVATE. */
  const hinting =
    (value: (userId: string | undefined) => string) =>
    (
      _: unknown,
      __: object,
      { userId }: Viewer,
      info: { cacheControl: { setCacheHint(hint: object): void } },
    ): string => {
      info.cacheControl.setCacheHint({ maxAge: 60, scope: "PRIVATE" });
      return value(userId);
    };

  it("takes the hint PRIVATE of a load of a PUBLIC field for its scope, unless the field itself says that it is PUBLIC", async () => {
    const { schema, cache } = world().process(
      "type Query { hinted: String @cached(maxAge: 60) certain: String @cached(maxAge: 60, scope: PUBLIC) }",
      {
        Query: {
          hinted: hinting((userId) => `hinted for ${userId}`),
          certain: hinting((userId) => `certain of ${userId}`),
        },
      },
      { identify },
    );
    const server = new ApolloServer<Viewer>({ schema, plugins: [cachedPlugin(cache)] });
    const read = async (query: string, userId: string) => {
      const { body, http } = await server.executeOperation({ query }, { contextValue: { userId } });
      if (body.kind !== "single") throw new Error("expected a single result");
      return { data: { ...body.singleResult.data }, control: http.headers.get("cache-control") };
    };
    for (const userId of [...PEOPLE, ...PEOPLE]) {
      expect(await read("{ hinted }", userId)).toMatchObject({ data: { hinted: `hinted for ${userId}` } });
      expect((await read("{ hinted }", userId)).control ?? "no-store").not.toContain("public");
    }
    await read("{ certain }", "alice");
    await settle();
    expect((await read("{ certain }", "bob")).data).toEqual({ certain: "certain of alice" });
    await server.stop();
  });

  describe("of a field whose key has a value of the context", () => {
    const tenants = (made: World, settings: string) => {
      const loadGate = gate();
      const loads: unknown[] = [];
      const process = made.process(
        `type Query { price: String @cached(maxAge: 60, ${settings}) }`,
        {
          Query: {
            price: async (_: unknown, __: object, context: Viewer) => {
              loads.push(context.tenant);
              await loadGate.passed;
              return `price of ${context.tenant}`;
            },
          },
        },
        { identify },
      );
      return { ...process, loadGate, loads };
    };
    const CASES = { key: 'key: ["$context.tenant"]', tags: 'tags: ["T:{$context.tenant}"]' };

    it.each(Object.entries(CASES))("fails if the context changes before it begins (in its %s)", async (_, settings) => {
      const { ask, loadGate, loads } = tenants(world(), settings);
      loadGate.open();
      const shared: Viewer = { tenant: "a" };
      const asked = ask("{ price }", shared);
      shared.tenant = "b";
      expect((await asked).errors?.[0]?.originalError).toMatchObject({ code: "CACHED_IDENTITY_CHANGED" });
      expect(loads).toEqual([]);
    });

    it.each(Object.entries(CASES))(
      "stores nothing if the context changes before it ends (in its %s)",
      async (_, settings) => {
        const { ask, loadGate, loads } = tenants(world(), settings);
        const shared: Viewer = { tenant: "a" };
        const asked = ask("{ price }", shared);
        while (loads.length === 0) await settle();
        shared.tenant = "b";
        loadGate.open();
        expect((await asked).errors?.[0]?.originalError).toMatchObject({ code: "CACHED_IDENTITY_CHANGED" });
        expect(await dataOf(ask("{ price }", { tenant: "a" }))).toEqual({ price: "price of a" });
      },
    );
  });
});
