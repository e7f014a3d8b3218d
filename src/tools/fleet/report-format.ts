import { deflateRawSync, inflateRawSync } from "node:zlib";
import { isTime } from "../../core/base/clock.js";
import type { HotKeysSummary } from "../../core/telemetry/hot-keys.js";
import type { Tallies, Tally } from "./tally.js";

/** The version of the format. Reports of releases with another one are not read, which the answer says. */
const FORMAT = 1;
/** The largest part that is read. A part of 1,000 coordinates has some 300 kB. */
const MAX_PART_BYTES = 16 * 1024 * 1024;

/** What a process says of itself. Times are those of its clock, in milliseconds since 1970. */
export interface ProcessInfo {
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly nodeVersion: string;
  readonly startedAt: number;
  readonly reportEveryMs: number;
  /** Whether the cache was closed, so that nothing is missing. */
  readonly isClosed: boolean;
  /** The live state, without user data. */
  readonly state?: unknown;
}

/** What was counted between two instants on the store's clock. */
export interface Counted {
  readonly fromAt: number;
  readonly toAt: number;
  readonly tallies: Tallies;
  /** Undefined if reads were not counted by key. */
  readonly hot: Hot | undefined;
}

/** Reads that were counted by key, from `fromAt` on. */
export interface Hot {
  readonly fromAt: number;
  readonly keys: HotKeysSummary;
}

/** Writes JSON, compressed: a fifth of its size. */
function write(content: object): Buffer {
  return deflateRawSync(JSON.stringify({ format: FORMAT, ...content }), { level: 1 });
}

/** Returns undefined for what this release cannot read. */
function read<Content, Result>(
  bytes: Uint8Array | undefined,
  resultOf: (content: Content) => Result,
): Result | undefined {
  if (bytes === undefined) return undefined;
  try {
    const text = inflateRawSync(bytes, { maxOutputLength: MAX_PART_BYTES }).toString();
    const content = JSON.parse(text) as { readonly format?: unknown };
    return content.format === FORMAT ? resultOf(content as Content) : undefined;
  } catch {
    return undefined;
  }
}

export const writeInfo = (info: ProcessInfo): Buffer => write(info);
export const readInfo = (bytes: Uint8Array | undefined): ProcessInfo | undefined =>
  read<ProcessInfo, ProcessInfo | undefined>(bytes, (info) => (isInfo(info) ? info : undefined));

const isInfo = ({ host, pid, version, nodeVersion, startedAt, reportEveryMs, isClosed }: ProcessInfo): boolean =>
  [host, version, nodeVersion].every((text: unknown) => typeof text === "string") &&
  (pid | 0) === pid &&
  isTime(startedAt) &&
  isTime(reportEveryMs) &&
  typeof isClosed === "boolean";

/** The digests of keys are written, never their inputs. */
export function writeCounted({ fromAt, toAt, tallies, hot }: Counted): Buffer {
  return write({ fromAt, toAt, tallies: [...tallies], hot: hot && writtenHot(hot) } satisfies WrittenCounted);
}

function writtenHot({ fromAt, keys: { reads, floor, keys } }: Hot): WrittenHot {
  const written = keys.map((key) => [key.coordinate, key.digest, key.reads, key.maxError] as const);
  return { fromAt, reads, floor, keys: written };
}

interface WrittenCounted {
  readonly fromAt: number;
  readonly toAt: number;
  readonly tallies: readonly (readonly [string, Tally])[];
  readonly hot: WrittenHot | undefined;
}

interface WrittenHot {
  readonly fromAt: number;
  readonly reads: number;
  readonly floor: number;
  readonly keys: readonly (readonly [coordinate: string, digest: string, reads: number, maxError: number])[];
}

export const readCounted = (bytes: Uint8Array | undefined): Counted | undefined =>
  read<WrittenCounted, Counted | undefined>(bytes, ({ fromAt, toAt, tallies, hot }) => {
    if (!isTime(fromAt) || !isTime(toAt) || !tallies.every(isTallyEntry)) return undefined;
    if (hot !== undefined && !isHot(hot)) return undefined;
    return { fromAt, toAt, tallies: new Map(tallies), hot: hot && readHot(hot) };
  });

function isTallyEntry([coordinate, tally]: readonly [string, Tally]): boolean {
  if (typeof coordinate !== "string" || typeof tally !== "object") return false;
  for (const name in tally) if (!Number.isFinite(tally[name])) return false;
  return true;
}

const isHot = ({ fromAt, reads, floor, keys }: WrittenHot): boolean =>
  isTime(fromAt) &&
  Number.isFinite(reads) &&
  Number.isFinite(floor) &&
  keys.every(
    ([coordinate, digest, count, maxError]) =>
      typeof coordinate === "string" &&
      typeof digest === "string" &&
      Number.isFinite(count) &&
      Number.isFinite(maxError),
  );

function readHot({ fromAt, reads, floor, keys }: WrittenHot): Hot {
  const named = keys.map(([coordinate, digest, count, maxError]) => ({ coordinate, digest, reads: count, maxError }));
  return { fromAt, keys: { reads, floor, keys: named } };
}
