import { chaosStore, FakeClock } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import {
  applyCached,
  cachedTypeDefs,
  controlResolvers,
  controlTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
  memoryStore,
} from "graphql-cached";
import { describe, expect, it, onTestFinished } from "vitest";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Int @cached(maxAge: 60)
  }
  type Mutation {
    change: Int
  }
`;

interface Context {
  readonly isAdmin: boolean;
}

function createSite(allow: (context: Context) => unknown = ({ isAdmin }) => isAdmin) {
  const clock = new FakeClock();
  const store = chaosStore(memoryStore({ clock }));
  const cache = createCache<Context>({
    store,
    testing: { clock },
    logger: { info: () => undefined, warn: () => undefined },
  });
  onTestFinished(() => cache.close());
  cache.loader({ name: "Price", maxAge: 60, batch: async (ids: readonly number[]) => ids });
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, inspectionTypeDefs, controlTypeDefs, typeDefs],
      resolvers: [
        { Query: { movie: () => 1 }, Mutation: { change: () => 1 } },
        inspectionResolvers(cache, { allow: () => true }),
        controlResolvers(cache, { allow: allow as never }),
      ],
    }),
    cache,
  );
  const ask = (source: string, contextValue: Context = { isAdmin: true }, variableValues = {}) =>
    graphql({ schema, source, contextValue, variableValues });
  return { ask, cache, clock, store };
}

const FIELDS = "coordinate mode setAt setBy";
const HERE = expect.stringMatching(new RegExp(`^cacheSetMode on .+, process ${process.pid}$`)) as unknown;

describe("cacheSetMode", () => {
  it("sets the mode of everything, a field or a loader, and returns all modes that were set", async () => {
    const { ask, clock } = createSite();
    const setAt = new Date(clock.now()).toISOString();
    const set = async (args: string) => {
      const { data, errors } = await ask(`mutation { cacheSetMode(${args}) { ${FIELDS} } }`);
      expect(errors).toBeUndefined();
      return (data as { cacheSetMode: unknown }).cacheSetMode;
    };
    const off = { coordinate: "Query.movie", mode: "OFF", setAt, setBy: HERE };
    expect(await set('mode: OFF, coordinate: "Query.movie"')).toMatchObject([off]);
    await clock.advance(5_000);
    const later = new Date(clock.now()).toISOString();
    const price = { coordinate: "Price", mode: "OBSERVE", setAt: later, setBy: HERE };
    const all = { coordinate: null, mode: "ON", setAt: later, setBy: HERE };
    expect(await set('mode: OBSERVE, coordinate: "Price"')).toMatchObject([price, off]);
    expect(await set("mode: ON")).toMatchObject([all, price, off]);
    const { data } = await ask(`{ cacheInspection { modes { ${FIELDS} } fields { coordinate mode } } }`);
    expect(data).toMatchObject({
      cacheInspection: {
        modes: [all, price, off],
        fields: [
          { coordinate: "Query.movie", mode: "OFF" },
          { coordinate: "Price", mode: "OBSERVE" },
        ],
      },
    });
  });

  it("is shown with the time of day, also by a memory store, whose clock begins with the process", async () => {
    const clock: FakeClock & { wallTime(): number } = Object.assign(new FakeClock(), {
      wallTime: () => 1e12 + clock.now(),
    });
    const cache = createCache<Context>({ testing: { clock } });
    onTestFinished(() => cache.close());
    const { Mutation } = controlResolvers(cache, { allow: () => true });
    const set = await Mutation.cacheSetMode({}, { mode: "OBSERVE" } as never, { isAdmin: true });
    expect(set).toMatchObject([{ setAt: new Date(clock.wallTime()).toISOString() }]);
  });

  it("is shown by every process at once, also by one that reads nothing", async () => {
    const { ask, clock, store } = createSite();
    const other = createCache<Context>({
      store,
      testing: { clock },
      logger: { info: () => undefined, warn: () => undefined },
    });
    onTestFinished(() => other.close());
    const shown = async (): Promise<unknown> =>
      (await ask("{ cacheInspection { modes { coordinate mode } fields { coordinate mode } } }")).data?.cacheInspection;
    other.loader({ name: "Price", maxAge: 60, batch: async (ids: readonly number[]) => ids });
    await other.setMode("off", { coordinate: "Price" });
    expect(await shown()).toMatchObject({
      modes: [{ coordinate: "Price", mode: "OFF" }],
      fields: [{ mode: "ON" }, { coordinate: "Price", mode: "OFF" }],
    });
    await other.setMode("on", { coordinate: "Price" });
    expect(await shown()).toMatchObject({ modes: [{ mode: "ON" }], fields: [{ mode: "ON" }, { mode: "ON" }] });
    store.chaos.mode = "throws";
    expect(await shown()).toMatchObject({ modes: [{ mode: "ON" }] });
  });

  it("is denied unless `allow` returns true", async () => {
    const answers = [() => false, () => "yes", () => Promise.resolve(false), () => Promise.reject(new Error("down"))];
    for (const allow of answers) {
      const { ask } = createSite(allow);
      const { errors } = await ask("mutation { cacheSetMode(mode: OFF) { mode } }");
      expect(errors?.map(({ extensions }) => extensions.code)).toEqual(["CACHED_CONTROL_DENIED"]);
      const { data } = await ask("{ cacheInspection { modes { mode } } }");
      expect(data).toMatchObject({ cacheInspection: { modes: [] } });
    }
  });

  it("passes errors on with their codes", async () => {
    const { ask, store } = createSite();
    const codesOf = async (args: string) =>
      (await ask(`mutation { cacheSetMode(${args}) { mode } }`)).errors?.map(({ extensions }) => extensions.code);
    expect(await codesOf('mode: OFF, coordinate: "Query.film"')).toEqual(["CACHED_COORDINATE_UNKNOWN"]);
    store.chaos.mode = "throws";
    expect(await codesOf("mode: OFF")).toEqual(["CACHED_STORE_UNAVAILABLE"]);
  });

  it("requires a cache and `allow`", () => {
    const { cache } = createSite();
    expect(() => controlResolvers(cache, {} as never)).toThrow("controlResolvers: `allow`: expected a function");
    expect(() => controlResolvers({} as never, { allow: () => true })).toThrow("controlResolvers: expected a cache");
  });
});
