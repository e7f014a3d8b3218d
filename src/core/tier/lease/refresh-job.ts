import { attempt } from "../../base/built-in.js";
import { CachedError } from "../../base/errors.js";
import type { Encoded, Packing } from "../../codec/packing.js";
import type { Key } from "../../keys/key.js";
import type { ReadRequest } from "../request/request.js";
import type { Lease } from "./held-leases.js";

/**
 * A refresh to be run by a worker: plain data that can be sent as JSON. It carries the lease, so
 * the worker that gets it loads the value for all processes. `gen` and `token` are base64.
 */
export interface RefreshJob {
  readonly format: 2;
  /** The field or loader. */
  readonly coordinate: string;
  /** The name of the entry in the store. */
  readonly key: string;
  /**
   * What the worker needs to make the same request: the id of a loader, or the arguments and parent
   * of a field. Packed like a value, and encrypted if values are; base64.
   */
  readonly input: string;
  /** The id of the lease chain. */
  readonly gen: string;
  /** The token of the lease. */
  readonly token: string;
  /** When the lease was granted, in milliseconds on the store's clock. */
  readonly grantedAt: number;
  /** From which position of the invalidation clock on the value counts. */
  readonly position: number;
}

/**
 * Receives jobs. Returns, or resolves, once a worker is certain to receive the job. If it throws or
 * rejects, the refresh runs in this process.
 */
export type RefreshQueue = (job: RefreshJob) => unknown;

/** Undefined if no other process can make the request: PRIVATE, with context, or not encodable. */
export function writeJob(request: ReadRequest, lease: Lease, packing: Packing): Promise<RefreshJob> | undefined {
  const { input, key } = request;
  const encoded = input && attempt(() => packing.encode(input.call(request)));
  return encoded === undefined ? undefined : writeEncoded(key, encoded, lease, packing);
}

async function writeEncoded(
  { coordinate, name: key }: Key,
  input: Encoded,
  { gen, token, grantedAt, position }: Lease,
  packing: Packing,
): Promise<RefreshJob> {
  const sealed = Buffer.from(packing.seal(await packing.pack(input), inputAad(key))).toString("base64");
  const lease = { gen: toBase64(gen), token: toBase64(token), grantedAt, position };
  return { format: 2, coordinate, key, input: sealed, ...lease };
}

/** So that no entry of the same key can replace an encrypted input. */
const inputAad = (key: string): string => `${key} input`;

/** Reads a job. Throws `CACHED_OPTION_INVALID` if `job` is not what `writeJob` returns. */
export function readJob(job: unknown, packing: Packing): Lease & { coordinate: string; key: string; input: unknown } {
  try {
    const { format, coordinate, key, input, gen, token, grantedAt, position } = job as RefreshJob;
    const areTexts = [coordinate, key, input, gen, token].every((text) => typeof text === "string");
    const areNumbers = [grantedAt, position].every((number) => typeof number === "number");
    if (format !== 2 || !areTexts || !areNumbers) throw new TypeError("a field is missing");
    return {
      coordinate,
      key,
      input: packing.decode(packing.unpack(packing.unseal(Buffer.from(input, "base64"), inputAad(key)))),
      gen: fromBase64(gen),
      token: fromBase64(token),
      grantedAt,
      position,
    };
  } catch (cause) {
    const mistake = `cache.refresh: \`job\`: expected a job that \`loads.refreshQueue\` received, got ${typeof job === "object" ? "another object" : `a ${typeof job}`}; pass the job unchanged`;
    throw new CachedError("CACHED_OPTION_INVALID", mistake, { cause });
  }
}

const toBase64 = (text: string): string => Buffer.from(text, "latin1").toString("base64");
const fromBase64 = (text: string): string => Buffer.from(text, "base64").toString("latin1");
