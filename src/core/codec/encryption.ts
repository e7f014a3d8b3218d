import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { Unreadable } from "./codec.js";

/**
 * Encrypts bytes and binds them to their purpose, so that they cannot be copied to another place in
 * the store. Layout: 255, length of the key id (u8), key id, nonce, tag, ciphertext. Everything
 * before the nonce, and the purpose, is authenticated.
 */
export function createEncryption(options: EncryptionOptions) {
  const keys = options.keys.map(({ id, key }) => ({
    head: Buffer.concat([Uint8Array.of(SEALED, id.length), Buffer.from(id, "latin1")]),
    secret: createSecretKey(typeof key === "string" ? Buffer.from(key, "base64") : Buffer.from(key)),
  }));
  const [first] = keys as [{ head: Buffer; secret: KeyObject }];
  const authenticated = (head: Buffer, purpose: string): Buffer => Buffer.concat([head, Buffer.from(purpose, "utf8")]);
  return {
    seal(bytes: Uint8Array, purpose: string): Buffer {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, first.secret, nonce, { authTagLength: TAG_BYTES });
      cipher.setAAD(authenticated(first.head, purpose));
      const ciphertext = cipher.update(bytes);
      cipher.final();
      return Buffer.concat([first.head, nonce, cipher.getAuthTag(), ciphertext]);
    },
    /** Throws `Unreadable` for plaintext, modified bytes, another purpose and unknown keys. */
    unseal(sealed: Uint8Array, purpose: string): Buffer {
      if (sealed[0] !== SEALED) throw new Unreadable("it is not encrypted, but this process has `encryption` enabled");
      const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
      const key = keys.find(({ head }) => bytes.subarray(0, head.length).equals(head));
      if (key === undefined) throw new Unreadable("it is encrypted with a key that this process does not have");
      const tagAt = key.head.length + NONCE_BYTES;
      const ciphertextAt = tagAt + TAG_BYTES;
      if (bytes.length < ciphertextAt) throw new Unreadable("it is encrypted but truncated");
      const nonce = bytes.subarray(key.head.length, tagAt);
      const decipher = createDecipheriv(CIPHER, key.secret, nonce, { authTagLength: TAG_BYTES });
      decipher.setAAD(authenticated(key.head, purpose));
      decipher.setAuthTag(bytes.subarray(tagAt, ciphertextAt));
      const plaintext = decipher.update(bytes.subarray(ciphertextAt));
      try {
        decipher.final();
      } catch (cause) {
        throw new Unreadable("it was modified after encryption, or copied from another key", cause);
      }
      return plaintext;
    },
  };
}

/** An AES-256-GCM key. `id` is in plain text in each entry, which allows rotation. */
export interface EncryptionKey {
  readonly id: string;
  /** 32 bytes, or their base64 encoding. */
  readonly key: Uint8Array | string;
}

/**
 * The first key encrypts, all keys decrypt. To rotate, put the new key first and remove the old one
 * once the entries it encrypted have expired.
 */
export interface EncryptionOptions {
  readonly keys: readonly EncryptionKey[];
}

const CIPHER = "aes-256-gcm";
const KEY_BYTES = 32;
/** Random, for at most 2^32 uses of one key (NIST SP 800-38D, sections 8.2.2 and 8.3). */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** The first byte of sealed bytes, with any key. No plaintext body or failure begins with it. */
export const SEALED = 0xff;

/** Returns what was expected in place of `options`. Never shows a value: it may be a key. */
export function expectedOfEncryption(options: unknown): string | undefined {
  const shape = "{ keys: [{ id, key }, …] }, where the first key encrypts";
  const keys = typeof options === "object" && options !== null ? (options as { keys?: unknown }).keys : undefined;
  if (!Array.isArray(keys) || keys.length === 0) return shape;
  const ids = new Set<unknown>();
  const mistakes = keys.flatMap((given: unknown, index) => {
    const { id, key } = (typeof given === "object" && given !== null ? given : {}) as Record<string, unknown>;
    if (typeof id !== "string" || !/^[\w.:-]{1,64}$/.test(id))
      return [`\`keys[${index}].id\`: expected 1 to 64 letters, digits and any of _ . : -`];
    if (ids.has(id)) return [`\`keys[${index}].id\`: expected an id that no other key has`];
    ids.add(id);
    return isKey(key) ? [] : [`\`keys[${index}].key\`: expected ${KEY_BYTES} bytes or their base64`];
  });
  return mistakes.length === 0 ? undefined : `${shape} (${mistakes.join("; ")})`;
}

function isKey(key: unknown): boolean {
  if (typeof key === "string") return /^[A-Za-z0-9+/]{43}=$/.test(key);
  return key instanceof Uint8Array && key.byteLength === KEY_BYTES;
}
