/** A tag known only from the result, with the version it had after the load. */
export interface ResultTag {
  /** The tag's name in the store. */
  readonly name: string;
  readonly version: string;
}

/** What a load has said of how long its response may be kept by others, and by whom. */
export interface ResponseHint {
  /** Seconds. */
  readonly maxAge?: number;
  readonly scope?: "PUBLIC" | "PRIVATE";
}

/** What rests in a value's entry: the input it was made of, the tags its result gave, and the value as `packing` wrote it. */
export interface Body<Value = Uint8Array> {
  readonly input: string;
  readonly resultTags: readonly ResultTag[];
  readonly hint: ResponseHint | undefined;
  readonly value: Value;
}

/** The first byte of every body. */
const LAYOUT = 1;
const HEAD_BYTES = 9;

/** Layout: 1, length of the input, length of the extras (both u32, little endian), input, tags and hint as JSON or nothing, both UTF-8; value. */
export function writeBody({ input, resultTags, hint, value }: Body): Uint8Array {
  const inputBytes = Buffer.from(input, "utf8");
  const tags = resultTags.map(({ name, version }) => [name, version]);
  const extras = tags.length === 0 && hint === undefined ? "" : JSON.stringify([tags, hint ?? null]);
  const extraBytes = Buffer.from(extras, "utf8");
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt8(LAYOUT, 0);
  head.writeUInt32LE(inputBytes.length, 1);
  head.writeUInt32LE(extraBytes.length, 5);
  return Buffer.concat([head, inputBytes, extraBytes, value]);
}

type Extras = Pick<Body, "resultTags" | "hint">;

const NO_EXTRAS: Extras = { resultTags: [], hint: undefined };

/** Undefined where `bytes` are not what `writeBody` makes. */
export function readBody(bytes: Uint8Array): Body<Buffer> | undefined {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer.length < HEAD_BYTES || buffer[0] !== LAYOUT) return undefined;
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
      if (typeof name !== "string" || typeof version !== "string") throw new TypeError("two strings were expected");
      return { name, version };
    });
    return { resultTags, hint: hint ?? undefined };
  } catch {
    return undefined;
  }
}
