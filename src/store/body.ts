/** A tag known only from the result, with the nonce it had after the load. */
export interface ResultTag {
  /** The tag's name in the store. */
  readonly name: string;
  readonly nonce: string;
}

/** What rests in a value's entry: the input it was made of, the tags its result gave, and the value's text. */
export interface Body {
  readonly echo: string;
  readonly resultTags: readonly ResultTag[];
  readonly text: string;
}

const HEAD_BYTES = 8;

/** Layout: length of the echo, length of the tags (both u32, little endian), echo, tags as JSON or nothing, text; UTF-8. */
export function writeBody(body: Body): Uint8Array {
  const echo = Buffer.from(body.echo, "utf8");
  const tags = body.resultTags.length === 0 ? "" : JSON.stringify(body.resultTags.map((tag) => [tag.name, tag.nonce]));
  const head = Buffer.alloc(HEAD_BYTES);
  const tagBytes = Buffer.from(tags, "utf8");
  head.writeUInt32LE(echo.length, 0);
  head.writeUInt32LE(tagBytes.length, 4);
  return Buffer.concat([head, echo, tagBytes, Buffer.from(body.text, "utf8")]);
}

/** Undefined where `bytes` are not what `writeBody` makes. */
export function readBody(bytes: Uint8Array): Body | undefined {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer.length < HEAD_BYTES) return undefined;
  const echoEnd = HEAD_BYTES + buffer.readUInt32LE(0);
  const tagsEnd = echoEnd + buffer.readUInt32LE(4);
  if (tagsEnd > buffer.length) return undefined;
  const resultTags = tagsEnd === echoEnd ? [] : readTags(buffer.toString("utf8", echoEnd, tagsEnd));
  if (resultTags === undefined) return undefined;
  return { echo: buffer.toString("utf8", HEAD_BYTES, echoEnd), resultTags, text: buffer.toString("utf8", tagsEnd) };
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
