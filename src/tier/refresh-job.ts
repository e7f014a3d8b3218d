import type { Content } from "../codec/codec.js";
import type { Packing } from "../codec/packing.js";
import { CachedError } from "../errors.js";
import type { LogPosition, TagVersion } from "../store/store.js";
import type { ReadRequest } from "./request.js";

/** A refresh on its way to a worker: plain data, to be sent as JSON. It carries the lease, so whoever has it loads for all processes. */
export interface RefreshJob {
  readonly format: 1;
  /** The field or loader. */
  readonly coordinate: string;
  /** The entry's name in the store. */
  readonly key: string;
  /** What the worker needs to make the same request: a loader's id, a field's arguments and parent object; packed as values are, encrypted where they are. */
  readonly input: string;
  /** The lease: chain, holder, and when it was granted on the store's clock. */
  readonly gen: string;
  readonly token: string;
  readonly grantedAt: number;
  /** Of the tags known before the load, as read before it. */
  readonly tagVersions: readonly string[];
  /** Where the record of tag invalidations ended before the load, where tags of the result matter. */
  readonly logPosition: { readonly logId: string; readonly at: number } | undefined;
}

/** Takes jobs: returns, or resolves, once a worker is sure to get it. If it throws or rejects, the refresh runs where it was asked for. */
export type RefreshQueue = (job: RefreshJob) => unknown;

/** A won lease, as it travels. */
export interface Handover {
  readonly gen: string;
  readonly token: string;
  readonly grantedAt: number;
  readonly tagVersions: readonly TagVersion[];
  readonly logPosition: LogPosition | undefined;
}

/** Undefined where the request cannot be made elsewhere: a private value, a key that needs the context, an input that cannot be stored. */
export function inputOf(request: ReadRequest, packing: Packing): Content | undefined {
  try {
    return request.input === undefined ? undefined : packing.encode(request.input());
  } catch {
    return undefined;
  }
}

export async function writeJob(
  { key }: ReadRequest,
  input: Content,
  lease: Handover,
  packing: Packing,
): Promise<RefreshJob> {
  const { gen, token, grantedAt, tagVersions, logPosition } = lease;
  const sealed = packing.seal(await packing.pack(input), aboutInput(key.name));
  return {
    format: 1,
    coordinate: key.coordinate,
    key: key.name,
    input: Buffer.from(sealed).toString("base64"),
    gen: toBase64(gen),
    token: toBase64(token),
    grantedAt,
    tagVersions: tagVersions.map((version) => toBase64(version ?? "")),
    logPosition: logPosition === undefined ? undefined : { logId: toBase64(logPosition.logId), at: logPosition.at },
  };
}

/** What an encrypted input may be read as, and nothing else: no entry can be put in its place. */
const aboutInput = (key: string): string => `${key} input`;

/** Errors: `CACHED_OPTION_INVALID` where `job` is none. */
export function readJob(
  job: unknown,
  packing: Packing,
): Handover & { coordinate: string; key: string; input: unknown } {
  try {
    const { format, coordinate, key, input, gen, token, grantedAt, tagVersions, logPosition } = job as RefreshJob;
    const isWhole = [coordinate, key, input, gen, token, ...tagVersions].every((text) => typeof text === "string");
    if (format !== 1 || !isWhole || typeof grantedAt !== "number") throw new TypeError("a part is not there");
    return {
      coordinate,
      key,
      input: packing.decode(packing.unpack(Buffer.from(packing.unseal(Buffer.from(input, "base64"), aboutInput(key))))),
      gen: fromBase64(gen),
      token: fromBase64(token),
      grantedAt,
      tagVersions: tagVersions.map(fromBase64),
      logPosition: logPosition === undefined ? undefined : { logId: fromBase64(logPosition.logId), at: logPosition.at },
    };
  } catch (cause) {
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `cache.refresh: a job that \`refreshQueue\` was given was expected, ${typeof job === "object" ? "something else" : `a ${typeof job}`} came; hand it over as it is`,
      { cause },
    );
  }
}

const toBase64 = (text: string): string => Buffer.from(text, "latin1").toString("base64");
const fromBase64 = (text: string): string => Buffer.from(text, "base64").toString("latin1");
