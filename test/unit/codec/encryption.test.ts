import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createEncryption, expectedOfEncryption, isSealed } from "../../../src/codec/encryption.js";

const key = (id: string): { id: string; key: Buffer } => ({ id, key: randomBytes(32) });
const [spring, autumn] = [key("2026-04"), key("2026-11")];
const bytes = Buffer.from("a value that nobody else may read");

describe("sealed bytes", () => {
  it("are opened by whoever has the key, and show nothing of what they hold", () => {
    const sealed = createEncryption({ keys: [spring] }).seal(bytes, "gc:1:Query.me:x");
    expect(isSealed(sealed)).toBe(true);
    expect(sealed.includes("value")).toBe(false);
    expect(createEncryption({ keys: [spring] }).unseal(sealed, "gc:1:Query.me:x")).toEqual(bytes);
    const asText = { id: spring.id, key: spring.key.toString("base64") };
    expect(createEncryption({ keys: [asText] }).unseal(sealed, "gc:1:Query.me:x")).toEqual(bytes);
    expect(
      createEncryption({ keys: [spring] }).unseal(createEncryption({ keys: [asText] }).seal(Buffer.alloc(0), "a"), "a"),
    ).toHaveLength(0);
  });

  it("never come out the same twice, so that equal values do not show", () => {
    const { seal } = createEncryption({ keys: [spring] });
    expect(new Set(Array.from({ length: 100 }, () => seal(bytes, "a").toString("hex"))).size).toBe(100);
  });

  it("are opened by an older key too, and by none that is gone", () => {
    const [before, during, after] = [[spring], [autumn, spring], [autumn]].map((keys) => createEncryption({ keys }));
    const old = before?.seal(bytes, "a") as Buffer;
    expect(during?.unseal(old, "a")).toEqual(bytes);
    expect(after?.unseal(during?.seal(bytes, "a") as Buffer, "a")).toEqual(bytes);
    expect(() => after?.unseal(old, "a")).toThrow("it is encrypted with a key that is not among this process's");
  });

  it("are refused under another key of the store, and with any byte changed, cut off or added", () => {
    const { seal, unseal } = createEncryption({ keys: [spring, autumn] });
    const sealed = seal(bytes, "gc:1:Query.me:x");
    expect(() => unseal(sealed, "gc:1:Query.me:y")).toThrow("it was changed after it was encrypted, or belongs");
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed);
      changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
      expect(() => unseal(changed, "gc:1:Query.me:x"), `byte ${at}`).toThrow();
      expect(() => unseal(sealed.subarray(0, at), "gc:1:Query.me:x"), `${at} bytes`).toThrow();
    }
    expect(() => unseal(Buffer.concat([sealed, Buffer.alloc(1)]), "gc:1:Query.me:x")).toThrow();
  });

  it("of another key with the same id are refused", () => {
    const sealed = createEncryption({ keys: [spring] }).seal(bytes, "a");
    expect(() => createEncryption({ keys: [key(spring.id)] }).unseal(sealed, "a")).toThrow("it was changed");
  });

  it("are demanded: bytes in clear are refused", () => {
    expect(() => createEncryption({ keys: [spring] }).unseal(bytes, "a")).toThrow("it is not encrypted");
  });
});

describe("the keys", () => {
  it("are 32 bytes or their base64, with ids that differ", () => {
    for (const good of [[spring], [spring, autumn], [{ id: "a", key: new Uint8Array(32) }]])
      expect(expectedOfEncryption({ keys: good })).toBeUndefined();
    for (const [bad, part] of [
      [undefined, "{ keys: [{ id, key }, …] }"],
      [[], "the first of which encrypts"],
      [[spring, spring], "`keys[1].id` must be another than those before it"],
      [[spring, null], "`keys[1].id` must be 1 to 64 letters"],
      [[{ id: "a\n", key: spring.key }], "`keys[0].id` must be 1 to 64 letters"],
      [[{ id: "a", key: randomBytes(16) }], "`keys[0].key` must be 32 bytes, or their base64"],
      [[{ id: "a", key: "x".repeat(32) }], "`keys[0].key` must be 32 bytes, or their base64"],
      [[{ id: "a", key: spring.key.toString("hex") }], "`keys[0].key` must be 32 bytes, or their base64"],
    ] as const)
      expect(expectedOfEncryption({ keys: bad })).toContain(part);
  });
});
