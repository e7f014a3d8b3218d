import { describe, expect, it } from "vitest";
import { countParses } from "../../support/count-parses.js";
import { dataOf, memoryWorld, waitForStores } from "../../support/world.js";

interface Film {
  readonly title: string;
  readonly cast: { name: string }[];
}

const newFilm = (): Film => ({ title: "Heat", cast: [{ name: "Pacino" }] });

const isFrozenFilm = (film: Film): boolean =>
  Object.isFrozen(film) && Object.isFrozen(film.cast) && film.cast.every(Object.isFrozen);

/** A process with a field and a loader of one read-only film, which keeps what its source and its readers got. */
function startProcess(settings: object = { readOnly: true }, makeFilm: () => unknown = newFilm, options: object = {}) {
  const loaded: Film[] = [];
  const read: Film[] = [];
  const load = (): Film => {
    const film = makeFilm() as Film;
    loaded.push(film);
    return film;
  };
  const typeDefs = /* GraphQL */ `
    type Query {
      film(id: Int): Film @cached(maxAge: 60)
    }
    type Film {
      title: String
      renamed: String
    }
  `;
  const resolvers = {
    Query: { film: load },
    Film: {
      title: (film: Film) => (read.push(film), film.title),
      renamed: (film: { title: string }) => (film.title = "renamed"),
    },
  };
  const { cache, events, ask } = memoryWorld().process(typeDefs, resolvers, { defaults: settings, ...options });
  const films = cache.loader<number, Film, object>({
    name: "Film",
    batch: async (ids) => ids.map(load),
    maxAge: 60,
    ...settings,
  });
  return { ask, films, events, loaded, read };
}

describe("a read-only value", () => {
  it("is one frozen object for all requests of a tick that read it through a loader", async () => {
    const { films, events } = startProcess({ readOnly: true }, newFilm, { memory: false });
    await films({}).load(1);
    await waitForStores({ events });
    let read: Film[] = [];
    const { parses } = await countParses(async () => {
      read = await Promise.all(Array.from({ length: 8 }, () => films({}).load(1)));
    });
    expect(parses).toBe(1);
    expect(read[0]).toStrictEqual(newFilm());
    expect(read.every(isFrozenFilm)).toBe(true);
    expect(new Set(read).size).toBe(1);
  });

  it("is one frozen object for all that wait for its load, and leaves the source's own object as it is", async () => {
    const { films, loaded } = startProcess();
    const read = await Promise.all(Array.from({ length: 8 }, () => films({}).load(1)));
    expect(loaded).toHaveLength(1);
    expect(read.every(isFrozenFilm)).toBe(true);
    expect(new Set(read).size).toBe(1);
    expect(read[0]).not.toBe(loaded[0]);
    expect(Object.isFrozen(loaded[0])).toBe(false);
  });

  it("is one frozen object for the aliases of a field, on a miss and on a hit", async () => {
    const { ask, events, read } = startProcess();
    const aliases = `{ ${["a", "b", "c", "d"].map((alias) => `${alias}: film(id: 1) { title }`).join(" ")} }`;
    await dataOf(ask(aliases));
    await waitForStores({ events });
    await dataOf(ask(aliases));
    expect(read).toHaveLength(8);
    expect(read.every(isFrozenFilm)).toBe(true);
    expect(new Set(read.slice(0, 4)).size).toBe(1);
    expect(new Set(read.slice(4)).size).toBe(1);
  });

  it("fails a resolver that modifies it, and stays as it is", async () => {
    const { ask, events } = startProcess();
    for (let round = 0; round < 2; round++) {
      const { data, errors } = await ask("{ film(id: 1) { renamed } }");
      expect(data?.film).toEqual({ renamed: null });
      expect(errors?.[0]?.message).toContain("read only property 'title'");
      if (round === 0) await waitForStores({ events });
    }
    expect(await dataOf(ask("{ film(id: 1) { title } }"))).toEqual({ film: { title: "Heat" } });
  });

  it("has members that cannot be frozen, such as dates, which are shared as they are", async () => {
    const { films, events } = startProcess({ readOnly: true }, () => ({ ...newFilm(), at: new Date(7) }));
    await films({}).load(1);
    await waitForStores({ events });
    const [first, second] = await Promise.all([films({}).load(1), films({}).load(1)]);
    expect(first).toStrictEqual({ ...newFilm(), at: new Date(7) });
    expect(first).toBe(second);
  });
});

it("gives a reader who may modify the value an object of its own, also in a tick with readers who share it", async () => {
  const { cache, events } = memoryWorld().process("type Query { unused: Int }", {});
  const batch = async (ids: readonly number[]) => ids.map(newFilm);
  const [shared, copied] = [true, false].map((readOnly) => cache.loader({ name: "Film", batch, maxAge: 60, readOnly }));
  await shared?.({}).load(1);
  await waitForStores({ events });
  for (const order of [
    [shared, copied, copied, shared],
    [copied, shared, shared, copied],
  ]) {
    const read = (await Promise.all(order.map((loader) => loader?.({}).load(1)))) as Film[];
    const expected = order.map((loader) => loader === shared);
    expect(read.map(isFrozenFilm)).toEqual(expected);
    expect(new Set(read.filter((film) => !isFrozenFilm(film))).size).toBe(2);
  }
});

describe("a value that is not declared read-only", () => {
  it("is an object of its own for each alias of a field, although it is parsed only once for all further aliases", async () => {
    const { ask, events, read } = startProcess({});
    const aliases = `{ ${["a", "b", "c", "d", "e"].map((alias) => `${alias}: film(id: 1) { title }`).join(" ")} }`;
    await dataOf(ask(aliases));
    await waitForStores({ events });
    read.length = 0;
    const { parses } = await countParses(() => ask(aliases));
    expect(parses).toBeLessThanOrEqual(2);
    expect(new Set(read).size).toBe(5);
    expect(new Set(read.map(({ cast }) => cast)).size).toBe(5);
    expect(read.some((film) => Object.isFrozen(film))).toBe(false);
  });

  it("is an object of its own for each alias that does not see what the resolvers of the others have done to it", async () => {
    const { ask, events } = startProcess({});
    const aliases =
      "{ a: film(id: 1) { renamed } b: film(id: 1) { title } c: film(id: 1) { title renamed } d: film(id: 1) { title } }";
    for (let round = 0; round < 2; round++) {
      expect(await dataOf(ask(aliases))).toEqual({
        a: { renamed: "renamed" },
        b: { title: "Heat" },
        c: { title: "Heat", renamed: "renamed" },
        d: { title: "Heat" },
      });
      if (round === 0) await waitForStores({ events });
    }
  });
});
