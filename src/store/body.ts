/** A tag known only from the result, with the nonce it had after the load. */
export interface ResultTag {
  /** The tag's name in the store. */
  readonly name: string;
  readonly nonce: string;
}

/** What rests in a value's entry: the input it was made of, the tags its result gave, and the value as `packing` wrote it. */
export interface Body<Value = Uint8Array> {
  readonly echo: string;
  readonly resultTags: readonly ResultTag[];
  readonly value: Value;
}

/** The first byte of every body. */
const LAYOUT = 1;
const HEAD_BYTES = 9;

/** Layout: 1, length of the echo, length of the tags (both u32, little endian), echo, tags as JSON or nothing, both UTF-8; value. */
export function writeBody(body: Body): Uint8Array {
  const echo = Buffer.from(body.echo, "utf8");
  const tags = body.resultTags.length === 0 ? "" : JSON.stringify(body.resultTags.map((tag) => [tag.name, tag.nonce]));
  const head = Buffer.alloc(HEAD_BYTES);
  const tagBytes = Buffer.from(tags, "utf8");
  head.writeUInt8(LAYOUT, 0);
  head.writeUInt32LE(echo.length, 1);
  head.writeUInt32LE(tagBytes.length, 5);
  return Buffer.concat([head, echo, tagBytes, body.value]);
}

const NO_TAGS: readonly ResultTag[] = [];

/** Undefined where `bytes` are not what `writeBody` makes. */
export function readBody(bytes: Uint8Array): Body<Buffer> | undefined {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer.length < HEAD_BYTES || buffer[0] !== LAYOUT) return undefined;
  const echoEnd = HEAD_BYTES + buffer.readUInt32LE(1);
  const tagsEnd = echoEnd + buffer.readUInt32LE(5);
  if (tagsEnd > buffer.length) return undefined;
  const resultTags = tagsEnd === echoEnd ? NO_TAGS : readTags(buffer.toString("utf8", echoEnd, tagsEnd));
  if (resultTags === undefined) return undefined;
  return { echo: buffer.toString("utf8", HEAD_BYTES, echoEnd), resultTags, value: buffer.subarray(tagsEnd) };
}

function readTags(text: string): readonly ResultTag[] | undefined {
  try {
    return (JSON.parse(text) as unknown[]).map((pair) => {
      const [name, nonce] = pair as [unknown, unknown];
      if (typeof name !== "string" || typeof nonce !== "string") throw new TypeError("two strings were expected");
      return { name, nonce };
    });
  } catch {
    return undefined;
  }
}
