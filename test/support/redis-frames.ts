/** Splits a stream of the Redis protocol, RESP2 or RESP3, into its frames: commands, replies and messages. */
export class RedisFrames {
  #rest: Buffer = Buffer.alloc(0);

  /** Appends bytes of the stream. Returns the frames that they complete. */
  append(bytes: Buffer): Buffer[] {
    const all = Buffer.concat([this.#rest, bytes]);
    const frames: Buffer[] = [];
    let start = 0;
    for (let end = endOf(all, 0); end !== undefined; end = endOf(all, start)) {
      frames.push(all.subarray(start, end));
      start = end;
    }
    this.#rest = all.subarray(start);
    return frames;
  }
}

/** Returns the strings of a flat array, such as a command or a message. Other elements are empty. */
export function stringsOf(frame: Buffer): Buffer[] {
  const strings: Buffer[] = [];
  let at = frame.indexOf("\r\n") + 2;
  while (at < frame.length) {
    const end = endOf(frame, at) as number;
    const isString = frame[at] === "$".charCodeAt(0);
    strings.push(isString ? frame.subarray(frame.indexOf("\r\n", at) + 2, end - 2) : Buffer.alloc(0));
    at = end;
  }
  return strings;
}

/** Returns where the frame that begins at `start` ends. Undefined if it is not complete. */
function endOf(bytes: Buffer, start: number): number | undefined {
  const lineEnd = bytes.indexOf("\r\n", start);
  if (lineEnd < 0) return undefined;
  const type = String.fromCharCode(bytes[start] as number);
  const next = lineEnd + 2;
  if ("+-:_#,(".includes(type)) return next;
  const length = Number(bytes.toString("latin1", start + 1, lineEnd));
  if (length < 0) return next; // null, in RESP2
  if ("$!=".includes(type)) return next + length + 2 <= bytes.length ? next + length + 2 : undefined;
  // A map has two elements for each of its length; attributes (`|`) precede the value they belong to.
  const elements = { "*": length, ">": length, "~": length, "%": 2 * length, "|": 2 * length + 1 }[type];
  if (elements === undefined) throw new Error(`expected a frame of the Redis protocol, got one of type ${type}`);
  let end: number | undefined = next;
  for (let nth = 0; nth < elements && end !== undefined; nth++) end = endOf(bytes, end);
  return end;
}
