import { type ClockHead, LOG_HEAD_BYTES, readHead, readRecords, writeRecord } from "./clock-log.js";

/**
 * Appends records so that every copy shows them, or a later head of the same log. A copy that shows a later position which the log
 * does not have was raised by a log that has been lost since: what is stored under that position must not count as later than these
 * records, so they are appended once more, above it. Without records, one that invalidates nothing is appended there: otherwise nobody
 * would find in the log what the copy shows.
 */
export async function appendToCopies(clock: CopiedClock, records: readonly Buffer[]): Promise<Buffer> {
  let toAppend = records;
  let after = 0;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const bytes = await clock.append(toAppend, after);
    const head = readHead(bytes) as ClockHead;
    const later = (await clock.raise(bytes)).map(readHead).filter((shown) => isOther(shown, head)) as ClockHead[];
    if (later.length === 0) return bytes;
    // Another process may have appended to the same log meanwhile. If the log is another one by now, or has dropped records, nothing is
    // found in these bytes, and appending again does no harm.
    const since =
      readRecords((await clock.read(LOG_HEAD_BYTES + head.endsAt - head.beginsAt)) ?? Buffer.alloc(0)) ?? [];
    const foreign = later.filter(
      ({ epoch, position, nonce }) =>
        epoch !== head.epoch || !since.some((record) => record.position === position && record.nonce === nonce),
    );
    if (foreign.length === 0) return bytes;
    after = Math.max(...foreign.map(({ position }) => position));
    if (records.length === 0) toAppend = [writeRecord({ kind: "hard", subjects: [] })];
  }
  throw new Error(
    "a copy of the invalidation clock shows a later position than its log; check the clocks of the servers",
  );
}

/** How a store with several nodes keeps the clock: a log on one of them, and copies of its head. */
export interface CopiedClock {
  /** Appends the records to the log, at positions later than `after`. Resolves to the head of the log. */
  append(records: readonly Buffer[], after: number): Promise<Buffer>;
  /** Writes a head to each copy that has an earlier one or none. Resolves to what they show then. Rejects if one is not known to show it. */
  raise(head: Buffer): Promise<readonly Buffer[]>;
  /** Reads the log from one of its bytes on. */
  read(from: number): Promise<Buffer | undefined>;
}

/** How often an invalidation is appended again, above what a copy shows. */
const MAX_ATTEMPTS = 5;

const isOther = (shown: ClockHead | undefined, { position, nonce }: ClockHead): boolean =>
  shown !== undefined && (shown.position > position || (shown.position === position && shown.nonce !== nonce));

/** Returns the later one of two heads. Undefined if neither is one. */
export function laterHead(one: Buffer | undefined, other: Buffer | undefined): Buffer | undefined {
  const [first, second] = [readHead(one), readHead(other)];
  if (first === undefined || second === undefined) return first ? one : second && other;
  return first.position < second.position ? other : one;
}
