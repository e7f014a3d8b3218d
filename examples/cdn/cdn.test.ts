import { expect, it, onTestFinished } from "vitest";
import { startSite } from "./site.js";

async function open() {
  const log: string[] = [];
  let now = 0;
  const site = await startSite(
    (what) => log.push(what),
    () => now,
  );
  onTestFinished(() => site.close());
  const send = async (init: RequestInit, path = "/", headers: object = {}) => {
    const all = { "content-type": "application/json", ...headers };
    const response = await fetch(`${site.cdn.url}${path}`, { ...init, headers: all });
    return { ...((await response.json()) as object), cache: response.headers.get("x-cache") };
  };
  return {
    log,
    purged: site.purged,
    wait: (ms: number) => {
      now += ms;
    },
    get: (query: string, headers?: object) => send({}, `/?query=${encodeURIComponent(query)}`, headers),
    mutate: (query: string) => send({ method: "POST", body: JSON.stringify({ query }) }),
  };
}

const FILM = "{ film(id: 1) { title } }";
const film = (title: string) => ({ data: { film: { title } } });

it("answers a query from the CDN until a mutation has changed what is in it", async () => {
  const { log, get, mutate, purged } = await open();
  expect(await get(FILM)).toEqual({ ...film("Metropolis"), cache: "MISS" });
  expect(await get(FILM)).toEqual({ ...film("Metropolis"), cache: "HIT" });
  await get("{ film(id: 2) { title } }");
  expect(await mutate('mutation { rename(id: 1, title: "Metropolis (1927)") { title } }')).toMatchObject({
    data: { rename: { title: "Metropolis (1927)" } },
  });
  await purged();
  expect(log).toEqual(["loads film 1", "loads film 2", "purges"]);
  expect(await get(FILM)).toEqual({ ...film("Metropolis (1927)"), cache: "MISS" });
  expect(await get(FILM)).toEqual({ ...film("Metropolis (1927)"), cache: "HIT" });
  expect(await get("{ film(id: 2) { title } }")).toEqual({ ...film("M"), cache: "HIT" });
});

it("asks the server again when the time of a response is over", async () => {
  const { get, wait } = await open();
  await get(FILM);
  wait(3_590_000);
  expect(await get(FILM)).toMatchObject({ cache: "HIT" });
  wait(10_000);
  expect(await get(FILM)).toMatchObject({ cache: "MISS" });
});

it("never keeps what belongs to one caller, and gives those who are signed in no response of others", async () => {
  const { get } = await open();
  const watchlist = { data: { watchlist: [{ title: "M" }] }, cache: "MISS" };
  const alice = { authorization: "alice" };
  for (const _ of [1, 2]) expect(await get("{ watchlist { title } }", alice)).toEqual(watchlist);
  await get(FILM);
  expect(await get(FILM, alice)).toEqual({ ...film("Metropolis"), cache: "MISS" });
  expect(await get(FILM)).toEqual({ ...film("Metropolis"), cache: "HIT" });
});
