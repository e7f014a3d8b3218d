import { collectMetrics } from "@graphql-cached/observability/prometheus";
import { invalidateFromOutbox } from "@graphql-cached/postgres";
import { memoryStore } from "graphql-cached";
import { Registry } from "prom-client";
import { describe, expect, it, vi } from "vitest";
import { listen } from "../../support/listen.js";
import { memoryWorld } from "../../support/world.js";

/** A message as an attacker would write it: a forged line, control characters of a terminal, and a lot of text. */
const POISON = `no such film\ngraphql-cached: forged\r\n\u001b[31mred\u0007\u009b2J\u202Ereversed\u2028next${"x".repeat(1_000_000)}`;
const CONTROLS = /[\p{Cc}\p{Cf}\u2028\u2029]/u;

function expectOneLine(lines: readonly string[]): void {
  expect(lines.length).toBeGreaterThan(0);
  for (const line of lines) {
    expect(line).not.toMatch(CONTROLS);
    expect(line.length).toBeLessThan(2_000);
  }
  expect(lines.join(" ")).toContain("no such film\\n");
}

describe("the message of an error in a log line is escaped and bounded", () => {
  it("if the store fails", async () => {
    const store = memoryStore();
    store.read = () => Promise.reject(new Error(POISON));
    const { cache, warnings } = listen({ store, prefix: "log" });
    await cache
      .loader({ name: "Movie", maxAge: 60, batch: async (ids: readonly number[]) => ids })({})
      .load(7);
    expectOneLine(warnings);
  });

  it("if it concerns one caller", async () => {
    const refuse = async (): Promise<never> => {
      throw Object.assign(new Error(POISON), { extensions: { code: "FORBIDDEN" } });
    };
    const site = memoryWorld().process("type Query { top: Int @cached(maxAge: 60) }", { Query: { top: refuse } });
    for (let request = 0; request < 3; request++)
      await Promise.all([site.ask("{ top }", {}), site.ask("{ top }", {}), site.ask("{ top }", {})]);
    expectOneLine(site.warnings);
  });

  it("if the tags or entities of a mutation cannot be read", async () => {
    const broken = (): object => ({
      get id() {
        throw new Error(POISON);
      },
    });
    const sdl = `type Query { movie: Movie @cached(maxAge: 60, tags: ["Movie:{$result.id}"]) } type Movie { id: ID! }
      type Mutation { rate: Movie @invalidates(tags: ["Movie:{$result.id}"]) list: [Movie] }`;
    const resolvers = { Mutation: { rate: broken, list: () => [broken()] } };
    const site = memoryWorld().process(sdl, resolvers, {}, { entityTags: true });
    site.warnings.length = 0;
    await site.ask("mutation { rate { id } list { id } }", {});
    expectOneLine(site.warnings);
  });

  it("if the outbox fails", async () => {
    const { cache, warnings } = listen();
    const database = { query: () => Promise.reject(new Error(POISON)) };
    const consumer = invalidateFromOutbox({ cache, database });
    await vi.waitFor(() => expect(warnings).not.toEqual([]));
    await consumer.stop();
    expectOneLine(warnings);
  });
});

it("has at most 50 types of errors as labels of metrics, whatever the sources throw", async () => {
  const cache = listen({ loads: { errorBackoffMs: 1 } }).cache;
  const register = new Registry();
  collectMetrics(cache, { register });
  const loader = cache.loader({
    name: "Movie",
    maxAge: 60,
    batch: async (ids: readonly number[]) =>
      ids.map((id) =>
        Object.assign(new Error("no"), {
          code: `SOURCE_DOWN_${"ABCDEFGHIJ"[id % 10]}${"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[Math.floor(id / 10)]}`,
        }),
      ),
  });
  await Promise.allSettled(Array.from({ length: 200 }, (_, id) => loader({}).load(id)));
  const text = await register.metrics();
  const types = new Set([...text.matchAll(/error_type="([^"]+)"/g)].map(([, type]) => type));
  expect(types.size).toBe(51);
  expect(types).toContain("_OTHER");
  expect(types).toContain("SOURCE_DOWN_AA");
});
