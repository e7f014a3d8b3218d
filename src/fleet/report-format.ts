import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { HotKeysSummary } from "../telemetry/hot-keys.js";
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
function read<Content>(bytes: Uint8Array | undefined): Content | undefined {
  if (bytes === undefined) return undefined;
  try {
    const content = JSON.parse(inflateRawSync(bytes, { maxOutputLength: MAX_PART_BYTES }).toString()) as {
      readonly format?: unknown;
    };
    return content.format === FORMAT ? (content as Content) : undefined;
  } catch {
    return undefined;
  }
}

export const writeInfo = (info: ProcessInfo): Buffer => write(info);
export const readInfo = (bytes: Uint8Array | undefined): ProcessInfo | undefined => read<ProcessInfo>(bytes);

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

export function readCounted(bytes: Uint8Array | undefined): Counted | undefined {
  const content = read<WrittenCounted>(bytes);
  if (content === undefined) return undefined;
  const { fromAt, toAt, tallies, hot } = content;
  return { fromAt, toAt, tallies: new Map(tallies), hot: hot && readHot(hot) };
}

function readHot({ fromAt, reads, floor, keys }: WrittenHot): Hot {
  const read = keys.map(([coordinate, digest, count, maxError]) => ({ coordinate, digest, reads: count, maxError }));
  return { fromAt, keys: { reads, floor, keys: read } };
}
