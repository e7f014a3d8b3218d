/** A tag derived from the loaded value, with the version it had after the load. */
export interface ResultTag {
  /** The name of the tag in the store. */
  readonly name: string;
  readonly version: string;
}

/** The cache hint that a load gave for its response: for how long others may cache it, and who. */
export interface ResponseHint {
  /** Seconds. */
  readonly maxAge?: number;
  readonly scope?: "PUBLIC" | "PRIVATE";
}

/** The content of a value's entry. `value` is the value as packed by the codec. */
export interface Body<Value = Uint8Array> {
  /** The canonical key input, compared on every read to detect collisions and mixed-up replies. */
  readonly input: string;
  readonly resultTags: readonly ResultTag[];
  readonly hint: ResponseHint | undefined;
  readonly value: Value;
}

/** The first byte of every body. */
const LAYOUT_VERSION = 1;
const HEAD_BYTES = 9;

/**
 * Encodes a body. Layout: version byte 1, length of the input (u32), length of the extras (u32),
 * input (UTF-8), extras (tags and hint as JSON, or empty), value. Integers are little endian.
 */
export function writeBody({ input, resultTags, hint, value }: Body): Uint8Array {
  const inputBytes = Buffer.from(input, "utf8");
  const tags = resultTags.map(({ name, version }) => [name, version]);
  const extras = tags.length === 0 && hint === undefined ? "" : JSON.stringify([tags, hint ?? null]);
  const extraBytes = Buffer.from(extras, "utf8");
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt8(LAYOUT_VERSION, 0);
  head.writeUInt32LE(inputBytes.length, 1);
  head.writeUInt32LE(extraBytes.length, 5);
  return Buffer.concat([head, inputBytes, extraBytes, value]);
}

type Extras = Pick<Body, "resultTags" | "hint">;

const NO_EXTRAS: Extras = { resultTags: [], hint: undefined };

/** Decodes what `writeBody` returns. Returns undefined for any other bytes. */
export function readBody(bytes: Uint8Array): Body<Buffer> | undefined {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer.length < HEAD_BYTES || buffer[0] !== LAYOUT_VERSION) return undefined;
  const inputEnd = HEAD_BYTES + buffer.readUInt32LE(1);
  const extrasEnd = inputEnd + buffer.readUInt32LE(5);
  if (extrasEnd > buffer.length) return undefined;
  const extras = extrasEnd === inputEnd ? NO_EXTRAS : readExtras(buffer.toString("utf8", inputEnd, extrasEnd));
  if (extras === undefined) return undefined;
  const { resultTags, hint } = extras;
  return { input: buffer.toString("utf8", HEAD_BYTES, inputEnd), resultTags, hint, value: buffer.subarray(extrasEnd) };
}

function readExtras(text: string): Extras | undefined {
  try {
    const [tags, hint] = JSON.parse(text) as [unknown[], ResponseHint | null];
    const resultTags = tags.map((pair) => {
      const [name, version] = pair as [unknown, unknown];
      if (typeof name !== "string" || typeof version !== "string") throw new TypeError("not a pair of strings");
      return { name, version };
    });
    return { resultTags, hint: hint ?? undefined };
  } catch {
    return undefined;
  }
}
