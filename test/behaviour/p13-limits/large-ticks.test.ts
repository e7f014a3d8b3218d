import { gate } from "@graphql-cached/testing";
import { type Cache, createCache, memoryStore } from "graphql-cached";
import { jsonCodec } from "graphql-cached/codec";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { overrideStore } from "../../support/override-store.js";

const KEYS = Array.from({ length: 64 }, (_, id) => id);
const VALUE_BYTES = 1_000_000;
const MIB = 1024 * 1024;

const TEXT = "x".repeat(VALUE_BYTES);
const textsOf = (cache: Cache) =>
  cache.loader({ name: "Text", maxAge: 60, batch: async (ids: readonly number[]) => ids.map(() => TEXT) });

describe("a tick that loads many large values", () => {
  it("encodes a few of them in each turn of the event loop", async () => {
    const turns = [0];
    let isOver = false;
    const nextTurn = (): void => {
      turns.push(0);
      if (!isOver) setImmediate(nextTurn);
    };
    const codec = {
      ...jsonCodec,
      encode: (value: unknown) => {
        const content = jsonCodec.encode(value);
        turns[turns.length - 1] = (turns.at(-1) as number) + content.length;
        return content;
      },
    };
    const cache = createCache({ defaultScope: "PUBLIC", store: memoryStore({ maxBytes: 256 * MIB }), codec });
    const texts = textsOf(cache);
    setImmediate(nextTurn);
    const loaded = await texts({}).loadMany(KEYS);
    isOver = true;
    expect(loaded.every((value) => value === TEXT)).toBe(true);
    expect(turns.reduce((sum, bytes) => sum + bytes)).toBeGreaterThanOrEqual(KEYS.length * VALUE_BYTES);
    // The turns of the test and of the cache do not begin together, so that one may see the work of two.
    expect(Math.max(...turns)).toBeLessThan(12 * MIB);
    await cache.close();
  });

  it("packs a few of them at a time, and the next ones when those are stored", async () => {
    const inner = memoryStore({ maxBytes: 256 * MIB });
    const held = gate();
    const stored: number[] = [];
    const storeValues: Store["storeValues"] = async (requests) => {
      stored.push(requests.reduce((sum, { body }) => sum + (body?.byteLength ?? 0), 0));
      await held.passed;
      return inner.storeValues(requests);
    };
    const store = overrideStore(inner, { storeValues });
    let packed = 0;
    const codec = {
      id: "counting",
      encode: (value: unknown) => {
        const text = jsonCodec.encode(value) as string;
        // Bytes are read when they are packed.
        const bytes = Buffer.from(text);
        Object.defineProperty(bytes, "byteLength", { get: () => (packed++, text.length) });
        return bytes;
      },
      decode: (content: string | Uint8Array) => jsonCodec.decode(Buffer.from(content as Uint8Array).toString()),
    };
    const finished: boolean[] = [];
    const cache = createCache({
      defaultScope: "PUBLIC",
      store,
      codec,
      storage: { storeTimeoutMs: 20_000, compressAboveBytes: 8 * MIB },
      onEvent: (event) => void (event.name === "write.finished" && finished.push(event.isStored)),
    });
    const texts = textsOf(cache);
    await texts({}).loadMany(KEYS);
    await expect.poll(() => stored.length).toBeGreaterThan(0);
    packed = 0;
    held.open();
    await expect.poll(() => finished.length, { timeout: 10_000 }).toBe(KEYS.length);
    expect(finished).not.toContain(false);
    // Those that are packed when the first are stored have been packed since.
    expect(packed).toBeGreaterThanOrEqual(KEYS.length - 8);
    await cache.close();
  });
});
