import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { Unreadable } from "./codec.js";

/** A key of AES-256-GCM. `id` stands readable in every entry encrypted with it, so that the keys can change. */
export interface EncryptionKey {
  readonly id: string;
  /** 32 bytes, or their base64. */
  readonly key: Uint8Array | string;
}

/** The first key encrypts, all decrypt: a new one is put first, and an old one taken away when what it encrypted has expired. */
export interface EncryptionOptions {
  readonly keys: readonly EncryptionKey[];
}

/** Makes bytes unreadable without a key, and binds them to what they are about, so that nobody can put them elsewhere. */
export interface Encryption {
  seal(bytes: Uint8Array, about: string): Buffer;
  /** Errors: `Unreadable`, for bytes that are not sealed, tampered with, about something else, or sealed with a key not known here. */
  unseal(sealed: Uint8Array, about: string): Buffer;
}

const CIPHER = "aes-256-gcm";
const KEY_BYTES = 32;
/** NIST SP 800-38D §8.2.2: a random nonce of 96 bits, for at most 2^32 uses of one key. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** No body and no failure begins with this. */
const SEALED = 0xff;

/** Whether `bytes` were sealed, by whatever key. */
export function isSealed(bytes: Uint8Array): boolean {
  return bytes[0] === SEALED;
}

/** Layout: 255, length of the key's id (u8), the id, nonce, tag, ciphertext. All before the nonce, and `about`, are authenticated. */
export function createEncryption(options: EncryptionOptions): Encryption {
  const keys = options.keys.map(({ id, key }) => ({
    head: Buffer.concat([Uint8Array.of(SEALED, id.length), Buffer.from(id, "latin1")]),
    secret: createSecretKey(typeof key === "string" ? Buffer.from(key, "base64") : Buffer.from(key)),
  }));
  const [first] = keys as [{ head: Buffer; secret: KeyObject }];
  const bound = (head: Buffer, about: string): Buffer => Buffer.concat([head, Buffer.from(about, "utf8")]);
  return {
    seal(bytes, about) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, first.secret, nonce, { authTagLength: TAG_BYTES });
      cipher.setAAD(bound(first.head, about));
      const text = cipher.update(bytes);
      cipher.final();
      return Buffer.concat([first.head, nonce, cipher.getAuthTag(), text]);
    },
    unseal(sealed, about) {
      if (!isSealed(sealed)) throw new Unreadable("it is not encrypted, as this process's `encryption` demands");
      const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
      const key = keys.find(({ head }) => bytes.subarray(0, head.length).equals(head));
      if (key === undefined) throw new Unreadable("it is encrypted with a key that is not among this process's");
      const tagAt = key.head.length + NONCE_BYTES;
      const textAt = tagAt + TAG_BYTES;
      if (bytes.length < textAt) throw new Unreadable("it is encrypted and cut off");
      const nonce = bytes.subarray(key.head.length, tagAt);
      const decipher = createDecipheriv(CIPHER, key.secret, nonce, { authTagLength: TAG_BYTES });
      decipher.setAAD(bound(key.head, about));
      decipher.setAuthTag(bytes.subarray(tagAt, textAt));
      const text = decipher.update(bytes.subarray(textAt));
      try {
        decipher.final();
      } catch (cause) {
        throw new Unreadable("it was changed after it was encrypted, or belongs to another key", cause);
      }
      return text;
    },
  };
}

/** Says what was expected where `options` are no encryption options, never what came: it may be a key. Undefined where they fit. */
export function expectedOfEncryption(options: unknown): string | undefined {
  const shape = "{ keys: [{ id, key }, …] }, the first of which encrypts";
  const keys = typeof options === "object" && options !== null ? (options as { keys?: unknown }).keys : undefined;
  if (!Array.isArray(keys) || keys.length === 0) return shape;
  const ids = new Set<unknown>();
  const mistakes = keys.flatMap((given: unknown, index) => {
    const { id, key } = (typeof given === "object" && given !== null ? given : {}) as Record<string, unknown>;
    if (typeof id !== "string" || !/^[\w.:-]{1,64}$/.test(id))
      return [`\`keys[${index}].id\` must be 1 to 64 letters, digits and any of _ . : -`];
    if (ids.has(id)) return [`\`keys[${index}].id\` must be another than those before it`];
    ids.add(id);
    return isKey(key) ? [] : [`\`keys[${index}].key\` must be ${KEY_BYTES} bytes, or their base64`];
  });
  return mistakes.length === 0 ? undefined : `${shape} (${mistakes.join(", ")})`;
}

function isKey(key: unknown): boolean {
  if (typeof key === "string") return /^[A-Za-z0-9+/]{43}=$/.test(key);
  return key instanceof Uint8Array && key.byteLength === KEY_BYTES;
}
