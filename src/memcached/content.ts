import { readCell, writeCell } from "../store/entry-layout.js";
import type { Nonce } from "../store/store.js";
import type { Cell } from "../store/transitions.js";

/** What is at a name: an entry, the nonce of a tag, the record of tag invalidations, or what none of ours has written. Absent is undefined. */
export type Content =
  | { readonly kind: "cell"; readonly cell: Cell }
  | { readonly kind: "nonce"; readonly nonce: string; readonly dropAt: number }
  | { readonly kind: "record"; readonly bytes: Buffer; readonly dropAt: number }
  | { readonly kind: "foreign" };

const NONCE_BYTES = 16;
const INSTANT_BYTES = 8;
const RECORD_MARK = "gr1 ";
/** What stands for a nonce while a write bracket is open. */
const FENCE = "fenced";

/** Undefined where there is nothing, or what was there is over: the server itself counts in whole seconds. */
export function readContent(bytes: Buffer | undefined, now: number): Content | undefined {
  if (bytes === undefined) return undefined;
  if (bytes.length < INSTANT_BYTES + NONCE_BYTES) return { kind: "foreign" };
  const dropAt = bytes.readDoubleLE(0);
  const rest = bytes.subarray(INSTANT_BYTES);
  if (rest.length === NONCE_BYTES)
    return ifLive({ kind: "nonce", nonce: rest.toString("latin1"), dropAt }, dropAt, now);
  if (rest.toString("latin1", 0, RECORD_MARK.length) === RECORD_MARK)
    return ifLive({ kind: "record", bytes: rest.subarray(RECORD_MARK.length), dropAt }, dropAt, now);
  const cell = readCell(rest, dropAt);
  return cell === undefined ? { kind: "foreign" } : ifLive({ kind: "cell", cell }, dropAt, now);
}

const ifLive = (content: Content, dropAt: number, now: number): Content | undefined =>
  now < dropAt ? content : undefined;

/** The bytes that `readContent` reads: when it is to be dropped, then a nonce, a record, or an entry as every store lays it out. */
export function writeContent(content: Exclude<Content, { kind: "foreign" }>): Buffer {
  const head = Buffer.alloc(INSTANT_BYTES);
  head.writeDoubleLE(dropAtOf(content));
  switch (content.kind) {
    case "cell":
      return Buffer.concat([head, writeCell(content.cell)]);
    case "nonce":
      return Buffer.concat([head, Buffer.from(content.nonce, "latin1")]);
    case "record":
      return Buffer.concat([head, Buffer.from(RECORD_MARK), content.bytes]);
  }
}

export function dropAtOf(content: Exclude<Content, { kind: "foreign" }>): number {
  return content.kind === "cell" ? content.cell.dropAt : content.dropAt;
}

export const cellOf = (content: Content | undefined): Cell | undefined =>
  content?.kind === "cell" ? content.cell : undefined;

export function nonceOf(content: Content | undefined): Nonce {
  if (content?.kind === "nonce") return content.nonce;
  return cellOf(content)?.state === "fenced" ? FENCE : undefined;
}
