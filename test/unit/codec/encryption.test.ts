import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createEncryption, expectedOfEncryption, SEALED } from "../../../src/core/codec/encryption.js";

const key = (id: string): { id: string; key: Buffer } => ({ id, key: randomBytes(32) });
const [spring, autumn] = [key("2026-04"), key("2026-11")];
const bytes = Buffer.from("a value for one reader only");

describe("sealed bytes", () => {
  it("can be decrypted with the key and reveal nothing without it", () => {
    const sealed = createEncryption({ keys: [spring] }).seal(bytes, "gc:1:Query.me:x");
    expect(sealed[0]).toBe(SEALED);
    expect(sealed.includes("value")).toBe(false);
    expect(createEncryption({ keys: [spring] }).unseal(sealed, "gc:1:Query.me:x")).toEqual(bytes);
    const asText = { id: spring.id, key: spring.key.toString("base64") };
    expect(createEncryption({ keys: [asText] }).unseal(sealed, "gc:1:Query.me:x")).toEqual(bytes);
    expect(
      createEncryption({ keys: [spring] }).unseal(createEncryption({ keys: [asText] }).seal(Buffer.alloc(0), "a"), "a"),
    ).toHaveLength(0);
  });

  it("differ each time, so that equal values cannot be recognized", () => {
    const { seal } = createEncryption({ keys: [spring] });
    expect(new Set(Array.from({ length: 100 }, () => seal(bytes, "a").toString("hex"))).size).toBe(100);
  });

  it("can be decrypted with an older key, but not with a removed one", () => {
    const [before, during, after] = [[spring], [autumn, spring], [autumn]].map((keys) => createEncryption({ keys }));
    const old = before?.seal(bytes, "a") as Buffer;
    expect(during?.unseal(old, "a")).toEqual(bytes);
    expect(after?.unseal(during?.seal(bytes, "a") as Buffer, "a")).toEqual(bytes);
    expect(() => after?.unseal(old, "a")).toThrow("it is encrypted with a key that this process does not have");
  });

  it("are rejected under another store key and after any byte was changed, removed or added", () => {
    const { seal, unseal } = createEncryption({ keys: [spring, autumn] });
    const sealed = seal(bytes, "gc:1:Query.me:x");
    expect(() => unseal(sealed, "gc:1:Query.me:y")).toThrow(
      "it was modified after encryption, or copied from another key",
    );
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed);
      changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
      expect(() => unseal(changed, "gc:1:Query.me:x"), `byte ${at}`).toThrow();
      expect(() => unseal(sealed.subarray(0, at), "gc:1:Query.me:x"), `${at} bytes`).toThrow();
    }
    expect(() => unseal(Buffer.concat([sealed, Buffer.alloc(1)]), "gc:1:Query.me:x")).toThrow();
  });

  it("are rejected if they were encrypted with a different key of the same id", () => {
    const sealed = createEncryption({ keys: [spring] }).seal(bytes, "a");
    expect(() => createEncryption({ keys: [key(spring.id)] }).unseal(sealed, "a")).toThrow("it was modified");
  });

  it("are required once encryption is on, so plaintext is rejected", () => {
    expect(() => createEncryption({ keys: [spring] }).unseal(bytes, "a")).toThrow("it is not encrypted");
  });
});

describe("the encryption keys", () => {
  it("must be 32 bytes or their base64, with unique ids", () => {
    for (const valid of [[spring], [spring, autumn], [{ id: "a", key: new Uint8Array(32) }]])
      expect(expectedOfEncryption({ keys: valid })).toBeUndefined();
    for (const [invalid, part] of [
      [undefined, "{ keys: [{ id, key }, …] }"],
      [[], "where the first key encrypts"],
      [[spring, spring], "`keys[1].id`: expected an id that no other key has"],
      [[spring, null], "`keys[1].id`: expected 1 to 64 letters"],
      [[{ id: "a\n", key: spring.key }], "`keys[0].id`: expected 1 to 64 letters"],
      [[{ id: "a", key: randomBytes(16) }], "`keys[0].key`: expected 32 bytes or their base64"],
      [[{ id: "a", key: "x".repeat(32) }], "`keys[0].key`: expected 32 bytes or their base64"],
      [[{ id: "a", key: spring.key.toString("hex") }], "`keys[0].key`: expected 32 bytes or their base64"],
    ] as const)
      expect(expectedOfEncryption({ keys: invalid })).toContain(part);
  });
});
