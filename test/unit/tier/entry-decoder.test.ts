import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { createPacking } from "../../../src/core/codec/packing.js";
import { createKeySpace } from "../../../src/core/keys/key.js";
import type { Entry } from "../../../src/core/store/entry.js";
import { readEntry, writeBody, writeStoredEntry } from "../../../src/core/store/entry-layout.js";
import { Channel } from "../../../src/core/telemetry/channel.js";
import { decodeEntry, valueAad } from "../../../src/core/tier/entry/entry-decoder.js";
import { PLAIN_PACKING } from "../../support/packing-settings.js";

const plain = createPacking(PLAIN_PACKING);
const encrypting = createPacking({ ...PLAIN_PACKING, encryption: { keys: [{ id: "a", key: randomBytes(32) }] } });
const VARIANT = { id: "v", form: 1 };
const key = createKeySpace("shop").entry(
  { kind: "loader", coordinate: "Film", identity: undefined, parts: "7" },
  VARIANT,
);

/** The entry that a store reads from bytes that contain `body`. `gen`: of the lease of its refresh. */
const entryOf = (body: Uint8Array, gen = ""): Entry =>
  readEntry(
    writeStoredEntry({
      ...{ state: "value", isNegative: false, hasRefreshFailed: false, hasWaiters: false, loadMs: 0, dropAt: 0 },
      ...{ gen, token: gen, untilAt: 5, freshUntilAt: 2, grantedAt: 1 },
      ...{ epoch: "epoch 01", position: 7 },
      body: Buffer.from(body),
    }),
  ) as Entry;

async function bodyOf(value: unknown, sealed: typeof plain): Promise<Uint8Array> {
  const packed = await plain.pack(plain.encode(value));
  const parts = { subjects: [7], hint: undefined };
  return sealed.seal(writeBody({ ...parts, value: packed }, key), valueAad(key, { position: 7, grantedAt: 1 }));
}

it("decodes a value from the bytes of its entry, also while it is being refreshed", async () => {
  for (const packing of [plain, encrypting]) {
    const body = await bodyOf({ title: "Heat" }, packing);
    for (const gen of ["", "g".repeat(16)]) {
      const decoded = decodeEntry(entryOf(body, gen), key, packing, new Channel());
      expect(decoded).toMatchObject({ kind: "value", value: { title: "Heat" } });
    }
  }
});

it("rejects plain text if values are encrypted, and encrypted values if they are not", async () => {
  for (const [written, read] of [
    [plain, encrypting],
    [encrypting, plain],
  ] as const) {
    const decoded = decodeEntry(entryOf(await bodyOf({ title: "Heat" }, written)), key, read, new Channel());
    expect(decoded).toEqual({ kind: "corrupt" });
  }
});

it("takes the value of another key for a collision", async () => {
  const other = createKeySpace("shop").entry(
    { kind: "loader", coordinate: "Film", identity: undefined, parts: "8" },
    VARIANT,
  );
  const entry = entryOf(await bodyOf({ title: "Heat" }, plain));
  expect(decodeEntry(entry, other, plain, new Channel())).toEqual({ kind: "collision" });
});
