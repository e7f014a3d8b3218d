import { resultControl } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { overrideStore } from "../../support/override-store.js";
import { dataOf, onEachStore } from "../../support/world.js";

/** A store whose values come back with `text` in place of what their loads have set. */
const forging = (store: Store, text: string): Store =>
  overrideStore(store, {
    storeValues: (requests) =>
      store.storeValues(requests.map((request) => ({ ...request, body: withText(request.body, text) }))),
  });

/** Replaces the JSON in a body, which its length precedes. */
function withText(body: Uint8Array | undefined, text: string): Uint8Array {
  const bytes = Buffer.from(body ?? []);
  const at = bytes.indexOf('{"');
  const end = at + bytes.readUInt32LE(at - 4);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(Buffer.byteLength(text));
  return Buffer.concat([bytes.subarray(0, at - 4), length, Buffer.from(text), bytes.subarray(end)]);
}

const FORGED = [
  "null",
  "[]x",
  "7",
  '{"hint":null}',
  '{"hint":"PUBLIC"}',
  '{"hint":{"scope":{}}}',
  '{"hint":{"scope":"PUBLIC, s-maxage=31536000"}}',
  '{"hint":{"maxAge":-1}}',
  '{"hint":{"maxAge":"9"}}',
  '{"hint":{"maxAge":1e999}}',
  '{"hint":{"maxAge":7,"other":1}}',
  '{"freshness":null}',
  '{"freshness":{"maxAgeMs":"1"}}',
  '{"freshness":{"maxAgeMs":-1}}',
  '{"freshness":{"staleWhileRevalidateMs":1e999}}',
  '{"freshness":{"maxAgeMs":null}}',
  '{"__proto__":{"hint":{"maxAge":7}}}',
];

onEachStore("what an entry says about its value", (world) => {
  it.each(FORGED)("is a miss, and no error, if it is %s", async (text) => {
    const shared = world();
    let loads = 0;
    const n = (...[, , , info]: [unknown, unknown, unknown, object]) => {
      resultControl(info as never).set({ maxAge: 30 });
      return ++loads;
    };
    const typeDefs = "type Query { n: Int @cached(maxAge: 60, staleWhileRevalidate: 60, maxAgeLimit: 600) }";
    const store = forging(shared.store(), text);
    const options = { store, memory: false, storage: { storeTimeoutMs: 5_000 } } as never;
    const process = shared.process(typeDefs, { Query: { n } }, options);
    for (let nth = 1; nth <= 2; nth++) {
      expect(await dataOf(process.ask("{ n }"))).toEqual({ n: nth });
      await partsOf(process.cache, "test").drain();
    }
    expect(process.outcomes()).toEqual({ loaded: 2 });
    expect(process.events.filter(({ name }) => name === "entry.corrupt")).not.toEqual([]);
  });
});
