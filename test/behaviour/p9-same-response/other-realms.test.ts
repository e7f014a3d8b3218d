import { runInNewContext } from "node:vm";
import { settle } from "@graphql-cached/testing";
import type { CacheOptions } from "graphql-cached";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { errorTypeOf } from "../../../src/core/telemetry/error-type.js";
import { msgpackrCodec } from "../../support/msgpackr-codec.js";
import { dataOf, memoryWorld, onEachStore, waitForStores } from "../../support/world.js";

/** Values as Node returns them to code in Jest or in a `vm` context: their classes are those of another realm. */
const FOREIGN: Readonly<Record<string, string>> = {
  "an object": "({ a: 1, inner: { b: [1, 2] } })",
  "an object without a prototype": "Object.assign(Object.create(null), { a: 1 })",
  "an array": "[1, { a: [2] }]",
  "a Date": "new Date(5)",
  "a Map": "new Map([[1, { a: 1 }]])",
  "a Set": "new Set([1, 'a'])",
  "a Uint8Array": "new Uint8Array([1, 2])",
  "a BigInt": "({ n: 7n })",
};
const foreign = (source: string): unknown => runInNewContext(source);

/** What a child resolver sees of a value, whatever realm it is of. */
const seen = (value: unknown): string =>
  JSON.stringify(value, (_, member: unknown) => {
    if (typeof member === "bigint") return `${member}n`;
    const kind = Object.prototype.toString.call(member).slice(8, -1);
    if (kind === "Map" || kind === "Set") return { [kind]: [...(member as Set<unknown>)] };
    return kind === "Uint8Array" ? { bytes: [...(member as Uint8Array)] } : member;
  });

const CODECS: Readonly<Record<string, CacheOptions<never>>> = { JSON: {}, msgpackr: { codec: msgpackrCodec() } };

it("stores what takes long to compress where Promise is not that of Node.js", async () => {
  // As in Jest, where zlib returns promises of another realm.
  onTestFinished(() => void vi.unstubAllGlobals());
  vi.stubGlobal("Promise", class OtherPromise<Value> extends Promise<Value> {});
  let loads = 0;
  const process = memoryWorld().process(
    "type Query { unused: Int }",
    {},
    { memory: false, storage: { compressAboveBytes: 1_000 } },
  );
  const text = process.cache.wrap({ name: "text", maxAge: 60, load: () => (loads++, "x".repeat(100_000)) });
  await text();
  await waitForStores(process);
  await text();
  expect(loads).toBe(1);
});

describe("values of another realm", () => {
  for (const [what, source] of Object.entries(FOREIGN))
    for (const [format, options] of Object.entries(CODECS))
      it(`are cached like those of this realm, with ${format}: ${what}`, async () => {
        let loads = 0;
        const { ask } = memoryWorld().process(
          "type Query { film: Film @cached(maxAge: 60) } type Film { seen: String }",
          {
            Query: { film: () => (loads++, { value: foreign(source) }) },
            Film: { seen: ({ value }: { value: unknown }) => seen(value) },
          },
          options,
        );
        for (let round = 0; round < 3; round++) {
          expect(await dataOf(ask("{ film { seen } }"))).toEqual({ film: { seen: seen(foreign(source)) } });
          await settle();
        }
        expect(loads).toBe(1);
      });

  it("are offered to the value types if they are instances of a class", async () => {
    const { ask, events } = memoryWorld().process(
      "type Query { film: Film @cached(maxAge: 60) } type Film { id: ID }",
      { Query: { film: () => foreign("new (class Film { id = 7 })()") } },
    );
    expect(await dataOf(ask("{ film { id } }"))).toEqual({ film: { id: "7" } });
    expect(events.filter(({ name }) => name === "value.refused")).toMatchObject([
      { error: { message: expect.stringContaining("an instance of Film at `result`") } },
    ]);
  });

  for (const source of [
    "new (class extends Array {})()",
    "new (class extends Date {})()",
    "new (class Map2 extends Map {})()",
    "new (class Date extends globalThis.Date {})()",
    "Object.create(Date.prototype)",
    "Object.create(Object.create(Object.prototype))",
    "new Float64Array(1)",
    "new Error('a')",
  ])
    it(`are refused if nothing could restore them: ${source}`, async () => {
      const { ask, events } = memoryWorld().process(
        "type Query { film: Film @cached(maxAge: 60) } type Film { id: ID }",
        { Query: { film: () => ({ value: foreign(source) }) } },
      );
      await dataOf(ask("{ film { id } }"));
      expect(events.filter(({ name }) => name === "value.refused")).toHaveLength(1);
    });
});

onEachStore("ids and parents of another realm", (world) => {
  it("have the keys of the same ids and parents of this realm", async () => {
    const { cache, events } = world().process("type Query { a: Int }", {});
    const batches: unknown[] = [];
    const films = cache.loader({
      name: "Film",
      maxAge: 60,
      batch: async (ids: readonly unknown[]) => (batches.push(...ids), ids.map(seen)),
    });
    for (const [what, source] of Object.entries(FOREIGN)) {
      // biome-ignore lint/security/noGlobalEval: the same text in this realm.
      const own: unknown = (0, eval)(source);
      const loads = batches.length + 1;
      expect(await films({}).load(foreign(source)), what).toBe(seen(own));
      await waitForStores({ events }, loads);
      expect(await films({}).load(own), what).toBe(seen(own));
      expect(batches, what).toHaveLength(loads);
    }
  });
});

describe("shared values of another realm", () => {
  it("are frozen like those of this realm", async () => {
    const { cache } = memoryWorld().process("type Query { a: Int }", {});
    const films = cache.loader({
      name: "Film",
      maxAge: 60,
      readOnly: true,
      batch: async (ids: readonly number[]) =>
        ids.map(() => foreign("({ cast: [{ name: 'a' }] })") as { cast: { name: string }[] }),
    });
    const film = await films({}).load(7);
    expect([film, film.cast, film.cast[0]].map((member) => Object.isFrozen(member))).toEqual([true, true, true]);
  });
});

describe("errors of another realm", () => {
  it("are named by their code, as Node's own are in Jest", async () => {
    const { ask, events } = memoryWorld().process("type Query { film: Int @cached(maxAge: 60) }", {
      Query: {
        film: () => {
          throw foreign("Object.assign(new Error('a'), { code: 'ECONNREFUSED' })");
        },
      },
    });
    await ask("{ film }");
    const failed = events.find(({ name }) => name === "load.failed") as { error?: unknown } | undefined;
    expect(errorTypeOf(failed?.error)).toBe("ECONNREFUSED");
  });
});

describe("dates of fake timers", () => {
  afterEach(() => void vi.useRealTimers());

  for (const format of Object.keys(CODECS))
    it(`are stored and are part of keys like others, with ${format}`, async () => {
      const { cache } = memoryWorld().process("type Query { a: Int }", {}, CODECS[format]);
      let loads = 0;
      const days = cache.loader({
        name: "Day",
        maxAge: 60,
        batch: async (ids: readonly Date[]) => ids.map((id) => (loads++, { day: id, again: new Date() })),
      });
      const real = new Date(0);
      vi.useFakeTimers({ toFake: ["Date"], now: 0 });
      const fake = new Date();
      const first = await days({}).load(fake);
      await settle();
      expect([first.day.getTime(), first.again.getTime()]).toEqual([0, 0]);
      for (const id of [fake, real]) expect((await days({}).load(id)).again.getTime()).toBe(0);
      vi.useRealTimers();
      for (const id of [fake, real]) expect((await days({}).load(id)).again.getTime()).toBe(0);
      expect(loads).toBe(1);
    });
});
