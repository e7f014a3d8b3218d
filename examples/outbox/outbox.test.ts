import { graphql } from "graphql";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type Films, openFilms } from "./films.js";

const loads: string[] = [];
let films: Films;
beforeAll(async () => {
  films = await openFilms((what) => loads.push(what));
}, 60_000);
afterAll(() => films.close());

const ask = async (source: string): Promise<unknown> => {
  const { data, errors } = await graphql({ schema: films.schema, source, contextValue: {} });
  expect(errors).toBeUndefined();
  return data;
};

it("shows what an administrator changes in the database, and loads nothing else anew", async () => {
  const query =
    "{ lang: director(id: 1) { movies { title } } murnau: director(id: 2) { movies { title } } movie(id: 1) { title } }";
  const [metropolis, m, nosferatu] = ["Metropolis", "M", "Nosferatu"].map((title) => ({ title }));
  expect(await ask(query)).toEqual({
    lang: { movies: [metropolis, m] },
    murnau: { movies: [nosferatu] },
    movie: metropolis,
  });
  await vi.waitFor(async () => {
    loads.length = 0;
    await ask(query);
    expect(loads).toEqual([]);
  });
  await films.db.exec("UPDATE movies SET director_id = 2 WHERE id = 2");
  await vi.waitFor(async () =>
    expect(await ask(query)).toEqual({
      lang: { movies: [metropolis] },
      murnau: { movies: [m, nosferatu] },
      movie: metropolis,
    }),
  );
  expect(new Set(loads)).toEqual(new Set(["filmography 1", "filmography 2"]));
  expect(loads).toHaveLength(2);
});
