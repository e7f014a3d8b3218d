import { gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { memoryWorld } from "../../support/world.js";

const typeDefs = "type Query { page: String @cached(maxAge: 60) }";

class HTTPError extends Error {
  readonly statusCode = 503;
}

const COOKIE: [string, string] = ["set-cookie", "session=ann"];
const RETRY: [string, string] = ["retry-after", "7"];

type Make = (headers: unknown) => object;

const PLACES: readonly (readonly [string, Make])[] = [
  ["error.headers", (headers) => Object.assign(new HTTPError("busy"), { headers })],
  ["error.response.headers", (headers) => Object.assign(new HTTPError("busy"), { response: { status: 503, headers } })],
  ["error.response.rawHeaders", (rawHeaders) => Object.assign(new HTTPError("busy"), { response: { rawHeaders } })],
  ["error.output.headers", (headers) => Object.assign(new HTTPError("busy"), { output: { headers } })],
  ["extensions.http.headers", (headers) => Object.assign(new HTTPError("busy"), { extensions: { http: { headers } } })],
  [
    "extensions.response.headers",
    (headers) => Object.assign(new HTTPError("busy"), { extensions: { response: { headers } } }),
  ],
  [
    "the headers of a cause",
    (headers) => new HTTPError("busy", { cause: Object.assign(new Error("inner"), { headers }) }),
  ],
];

const FORMS: readonly (readonly [string, unknown])[] = [
  ["an object", Object.fromEntries([COOKIE, RETRY, ["Authorization", "Bearer ann"]])],
  ["lists in an object", { "Set-Cookie": ["session=ann", "b=ann"], "retry-after": ["7"] }],
  ["a Map", new Map([COOKIE, RETRY])],
  ["Headers", new Headers([COOKIE, ["set-cookie", "b=ann"], RETRY])],
  ["pairs", [COOKIE, RETRY]],
  ["names and values", [...COOKIE, ...RETRY]],
];

/** Everything in an error, as text. */
function textOf(value: unknown): string {
  if (typeof value !== "object" || value === null) return String(value);
  if (value instanceof Headers || value instanceof Map) return [...value].flat().join();
  return Object.entries(Object.getOwnPropertyDescriptors(value))
    .filter(([name]) => name !== "stack")
    .map(([name, { value: own }]) => `${name}=${textOf(own)}`)
    .join();
}

/** Returns what the caller of a load, others who wait for it, and later ones get of an error, and how often it was loaded. */
async function sharedWith(error: unknown, kind: "field" | "loader") {
  const loadGate = gate();
  let loads = 0;
  const load = async (): Promise<never> => {
    loads++;
    await loadGate.passed;
    throw error;
  };
  const { cache, ask } = memoryWorld().process(
    typeDefs,
    { Query: { page: load } },
    { loads: { errorMaxAgeMs: () => 5_000 } },
  );
  const pages = cache.loader<string, string>({ name: "Page", maxAge: 60, batch: load });
  const read = async (): Promise<unknown> =>
    kind === "field"
      ? (await ask("{ page }", {})).errors?.[0]?.originalError
      : pages({})
          .load("a")
          .catch((caught: unknown) => caught);
  const first = read();
  while (loads === 0) await settle();
  const waiting = [read(), read()];
  await settle();
  loadGate.open();
  const all = await Promise.all([first, ...waiting]);
  await settle();
  return { own: all[0], others: [...all.slice(1), await read()], loads: () => loads };
}

describe.each(["field", "loader"] as const)("the headers of one caller in the error of a %s", (kind) => {
  for (const [place, make] of PLACES)
    it.each(FORMS)(`reach no other caller: ${place}, as %s`, async (_, headers) => {
      const error = make(headers);
      const { own, others, loads } = await sharedWith(error, kind);
      expect(own).toBe(error);
      expect(textOf(own)).toContain("session=ann");
      for (const other of others) {
        expect(other).toBeInstanceOf(HTTPError);
        expect(other).toMatchObject({ message: "busy", statusCode: 503 });
        expect(textOf(other)).not.toContain("ann");
        expect(textOf(other)).toContain("7");
      }
      expect(loads()).toBe(1);
    });

  it("have others load for themselves if the error cannot be copied without them", async () => {
    const response = new Response("busy", { status: 503, headers: [COOKIE] });
    const { loads } = await sharedWith(Object.assign(new HTTPError("busy"), { response }), kind);
    expect(loads()).toBe(4);
  });

  it("leave an error without them as it is, for all callers of the process", async () => {
    const error = Object.assign(new HTTPError("busy"), { headers: new Headers([RETRY]) });
    const { own, others, loads } = await sharedWith(error, kind);
    for (const one of [own, ...others]) expect(one).toBe(error);
    expect(loads()).toBe(1);
  });
});
