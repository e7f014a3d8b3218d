import { ApolloServer, HeaderMap } from "@apollo/server";
import { GraphQLError } from "graphql";
import { cachedPlugin } from "graphql-cached/apollo";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { memoryWorld, onEachStore, type Process, type World } from "../../support/world.js";

const typeDefs = "type Query { film: Int @cached(maxAge: 60) }";
const options = { loads: { errorBackoffMs: 30_000 }, storage: { storeTimeoutMs: 5_000 } };

const failure = (message: string, extensions: Record<string, unknown>) => new GraphQLError(message, { extensions });

/** Starts a process whose loads fail with `error`, and which counts the bytes that it leaves in the store. */
function failing(shared: World, error: unknown): Process & { bytes(): number } {
  let bytes = 0;
  const store = shared.store();
  const counting = new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      if (name !== "release") return member.bind(target);
      return (releases: Parameters<Store["release"]>[0]) => {
        for (const { body } of releases) bytes += body.byteLength;
        return target.release(releases);
      };
    },
  });
  const film = (): never => {
    throw error;
  };
  const made = shared.process(typeDefs, { Query: { film } }, { ...options, store: counting } as never);
  return { ...made, bytes: () => bytes };
}

/** Lets one process fail with `error`, and returns the error that a request to another one gets. */
async function passOn(shared: World, error: unknown) {
  const first = failing(shared, error);
  const own = await first.ask("{ film }");
  await partsOf(first.cache, "test").drain();
  const other = shared.process(typeDefs, {}, options);
  const { errors } = await other.ask("{ film }");
  return { own: own.errors?.[0], other: errors?.[0], bytes: first.bytes() };
}

const circle: { self?: unknown } = {};
circle.self = circle;

onEachStore("an error of a load in another process", (world) => {
  it("has the extensions of the original, without what cannot be passed on", async () => {
    class Money {
      readonly cents = 7;
      readonly convert = (): void => undefined;
    }
    const at = new Date(1_000);
    const { other } = await passOn(
      world(),
      failure("slow down", {
        code: "TOO_MANY_REQUESTS",
        http: { status: 429, headers: new HeaderMap([["retry-after", "7"]]) },
        at,
        left: 7n,
        money: new Money(),
        link: new URL("http://localhost/a"),
        log: () => undefined,
        list: [1, () => undefined, new Set(["a"])],
        circle,
        get broken(): never {
          throw new Error("no such property");
        },
      }),
    );
    expect(other?.message).toBe("slow down");
    const { circle: cut, ...extensions } = other?.extensions ?? {};
    expect(extensions).toEqual({
      code: "TOO_MANY_REQUESTS",
      http: { status: 429, headers: new Map([["retry-after", "7"]]) },
      at,
      left: 7n,
      money: { cents: 7 },
      link: "http://localhost/a",
      list: [1, null, new Set(["a"])],
    });
    expect(cut).toBeTypeOf("object");
  });

  it("is bounded, and keeps its code, however large the original is", async () => {
    const size = 20_000_000;
    const { own, other, bytes } = await passOn(
      world(),
      failure("é".repeat(size), {
        text: "x".repeat(size),
        list: Array.from({ length: 100_000 }, () => "entry"),
        bytes: new Uint8Array(size),
        numbers: new Float64Array(1_000_000),
        map: new Map(Array.from({ length: 100_000 }, (_, at) => [at, at])),
        small: true,
        code: "TOO_LARGE",
      }),
    );
    expect(own?.message).toHaveLength(size);
    expect(other?.message).toBe("é".repeat(8 * 1_024));
    expect(other?.extensions).toEqual({ code: "TOO_LARGE", small: true });
    expect(bytes).toBeGreaterThan(0);
    expect(bytes).toBeLessThan(64 * 1_024);
  });

  it("is a generic error if the original cannot be described at all", async () => {
    const hostile = new Proxy(new Error("x"), {
      get(target, name) {
        if (name === "message" || name === "name" || name === "extensions") throw new TypeError("no");
        return Reflect.get(target, name) as unknown;
      },
    });
    const { other, bytes } = await passOn(world(), hostile);
    expect(other).toBeInstanceOf(GraphQLError);
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
