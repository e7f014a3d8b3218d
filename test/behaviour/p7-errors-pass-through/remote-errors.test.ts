import { ApolloServer, HeaderMap } from "@apollo/server";
import { GraphQLError } from "graphql";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { overrideStore } from "../../support/override-store.js";
import { memoryWorld, onEachStore, type Process, type World } from "../../support/world.js";

const typeDefs = "type Query { film: Int @cached(maxAge: 60) }";
const options = { loads: { errorBackoffMs: 30_000 }, storage: { storeTimeoutMs: 5_000 } };

const failure = (message: string, extensions: Record<string, unknown>) => new GraphQLError(message, { extensions });

/** Starts a process whose loads fail with `error`, and which counts the bytes that it leaves in the store. */
function failing(shared: World, error: unknown): Process & { bytes(): number } {
  let bytes = 0;
  const store = shared.store();
  const counting = overrideStore(store, {
    release: (releases) => {
      for (const { body } of releases) bytes += body.byteLength;
      return store.release(releases);
    },
  });
  const film = (): never => {
    throw error;
  };
  const made = shared.process(typeDefs, { Query: { film } }, { ...options, store: counting } as never);
  return { ...made, bytes: () => bytes };
}

/** Lets one process fail with `error`, and returns the error that a request to another one gets: its own, if nothing was passed on. */
async function passOn(shared: World, error: unknown) {
  const first = failing(shared, error);
  await first.ask("{ film }");
  await partsOf(first.cache, "test").drain();
  const other = failing(shared, new Error("its own"));
  const { errors } = await other.ask("{ film }");
  return { other: errors?.[0], bytes: first.bytes(), first };
}

const circle: { self?: unknown } = {};
circle.self = circle;

class Money {
  readonly cents = 7;
}

onEachStore("an error of a load in another process", (world) => {
  it("has the class, the extensions, the cause and all other properties of the original", async () => {
    const http = { status: 429, headers: new HeaderMap([["retry-after", "7"]]) };
    const extensions = { code: "TOO_MANY_REQUESTS", http, at: new Date(1_000), left: 7n, list: [1, new Set(["a"])] };
    const error = Object.assign(
      new RangeError("slow down", { cause: Object.assign(new Error("busy"), { code: "EBUSY" }) }),
      { statusCode: 429, body: { retry: true }, extensions },
    );
    const { other } = await passOn(world(), error);
    const copy = other?.originalError;
    expect(copy).toBeInstanceOf(RangeError);
    expect(copy).toMatchObject({ message: "slow down", statusCode: 429, body: { retry: true } });
    expect(copy?.cause).toMatchObject({ message: "busy", code: "EBUSY" });
    expect(other?.extensions).toEqual({ ...extensions, http: { ...http, headers: new Map(http.headers) } });
  });

  it.each([
    ["a function", { log: () => undefined }],
    ["a class that is not declared", { money: new Money() }],
    ["a cycle", { circle }],
    ["a getter", Object.defineProperty({}, "broken", { get: () => 1, enumerable: true })],
    ["too much text", { text: "x".repeat(20_000_000) }],
    ["too many parts", { list: Array.from({ length: 100_000 }, () => "entry") }],
  ])("is not passed on if it contains %s: the other process loads for itself", async (_, extensions) => {
    const { other, bytes, first } = await passOn(world(), failure("slow down", extensions));
    expect(other?.message).toBe("its own");
    expect(bytes).toBeGreaterThan(0);
    expect(bytes).toBeLessThan(1_000);
    // The process that has caught it has it still.
    const { errors } = await first.ask("{ film }");
    expect(errors?.[0]?.message).toBe("slow down");
  });

  it("is not passed on if it cannot be looked at", async () => {
    const hostile = new Proxy(new Error("x"), {
      get(target, name) {
        if (name === "message" || name === "name" || name === "extensions") throw new TypeError("no");
        return Reflect.get(target, name) as unknown;
      },
    });
    const { other, bytes } = await passOn(world(), hostile);
    expect(other?.message).toBe("its own");
    expect(bytes).toBeGreaterThan(0);
  });
});

describe("an error with an HTTP status (Apollo)", () => {
  it("has the status and the headers of the original in every process", async () => {
    const shared = memoryWorld();
    const error = failure("slow down", {
      code: "TOO_MANY_REQUESTS",
      http: { status: 429, headers: new HeaderMap([["retry-after", "7"]]) },
    });
    const first = failing(shared, error);
    for (const { schema, cache } of [first, shared.process(typeDefs, {}, options)]) {
      const server = new ApolloServer({ schema, plugins: [cachedPlugin(cache as never)] });
      const { http, body } = await server.executeOperation({ query: "{ film }" });
      expect([http.status, http.headers.get("retry-after")]).toEqual([429, "7"]);
      const result = body.kind === "single" ? body.singleResult : undefined;
      expect(result?.errors?.[0]?.extensions).not.toHaveProperty("http");
      await partsOf(cache, "test").drain();
    }
  });
});
