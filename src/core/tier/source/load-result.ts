import { attempt } from "../../base/built-in.js";
import { CachedError, type ErrorCode } from "../../base/errors.js";
import { TooLarge, Unstorable } from "../../codec/codec.js";
import type { Encoded, Packing } from "../../codec/packing.js";
import { PromiseFound } from "../../codec/settled.js";
import type { Key } from "../../keys/key.js";
import { type Channel, subjectOf } from "../../telemetry/channel.js";
import { type Excess, type LoadedValue, REFUSALS, type Refusal } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";
import type { OwnSettings } from "../request/result-control.js";
import { subjectsOfLoaded } from "../request/served-report.js";
import type { SingleLoad, Waiters } from "../request/waiters.js";
import type { PrivateValues } from "./private-values.js";

/** What a load has returned, and what it has said about it. */
interface LoadResult {
  readonly value: unknown;
  readonly settings: OwnSettings | undefined;
  readonly loadMs: number;
  /** Whether it is known not to be storable, so that it is encoded only if others want copies. */
  readonly isUncacheable: boolean;
  /** Whether promises in it have been waited for. */
  readonly isSettled: boolean;
  readonly waiters: Waiters;
  readonly enclosing: SingleLoad;
}

/**
 * Returns what readers get of the result of a load: encoded, if it can be stored. Reports why it
 * cannot. For a promise in it, returns the `PromiseFound`, unless it `isSettled`.
 */
export function loadedOf(
  request: ReadRequest,
  { value, settings, loadMs, isUncacheable, isSettled, waiters, enclosing }: LoadResult,
  { packing, channel, privateValues }: { packing: Packing; channel: Channel; privateValues: PrivateValues },
): LoadedValue | PromiseFound {
  const { key } = request;
  const excess = excessOf(request, enclosing, privateValues);
  const isNarrowed = excess?.isNarrowed === true;
  if (isNarrowed) {
    enclosing.passOn(key.coordinate, undefined);
    privateValues.noteField(value, key.coordinate, request.context, request.call?.path);
  }
  const hint = isNarrowed ? { ...request.hintOf?.(), scope: "PRIVATE" as const } : request.hintOf?.();
  const loaded = (content: Encoded | undefined, refusal?: Refusal): LoadedValue => {
    const { begunAt = 0 } = request;
    return { kind: "loaded", isCallersOwn: false, value, content, refusal, hint, settings, loadMs, begunAt };
  };
  const report = (error: CachedError): void => channel.publish({ name: "value.refused", ...subjectOf(key), error });
  if (excess !== undefined) {
    report(excess.error);
    return loaded(undefined, excess.kind);
  }
  // Only if others want it, and at once: the source, or the caller, can go on to change the value.
  const contentForCopies = (): Encoded | undefined =>
    waiters.count > 1 || request.ending?.isShared === true ? attempt(() => packing.encode(value)) : undefined;
  if (isOutdated(request, value, settings)) return loaded(contentForCopies(), "outdated");
  if (isUncacheable) return loaded(contentForCopies());
  let content: Encoded | undefined;
  const refuse = (refusal: Refusal, code: ErrorCode, expected: string, cause?: unknown): LoadedValue => {
    report(uncached(code, key, `expected ${expected}`, cause));
    return loaded(REFUSALS[refusal].copies === "none" ? undefined : (content ?? contentForCopies()), refusal);
  };
  const refuseSize = (bytes: string): LoadedValue =>
    refuse(
      "too-large",
      "CACHED_VALUE_TOO_LARGE",
      `at most ${packing.maxValueBytes} bytes, got ${bytes}; return less data, or raise \`storage.maxValueBytes\``,
    );
  try {
    const encoded = packing.encode(value, packing.maxValueBytes);
    content = encoded;
    const bytes = packing.excessBytes(encoded);
    if (bytes !== undefined) return refuseSize(String(bytes));
    const mistake = request.validator?.mistakeInLoaded(value, () => packing.decode(encoded), request);
    if (mistake?.isRestored === false)
      return refuse(
        "invalid",
        "CACHED_VALUE_INVALID",
        `a value that matches the schema, got ${mistake.what}; correct the resolver, or the type in the schema`,
      );
    if (mistake !== undefined)
      return refuse(
        "unserializable",
        "CACHED_VALUE_UNSERIALIZABLE",
        `a value that has the same types when it is restored, got ${mistake.what}; let resolveType and isTypeOf decide by the data, such as \`__typename\`, and enums have plain internal values`,
      );
    const unusable = mistakeInTags(request, value);
    if (unusable === undefined) return loaded(content);
    report(unusable);
    return loaded(undefined, "unkeyable");
  } catch (cause) {
    if (cause instanceof PromiseFound && !isSettled) return cause;
    if (cause instanceof TooLarge) return refuseSize("more");
    const known = cause instanceof Unstorable ? cause : undefined;
    const got = known?.message ?? "a value that the codec could not encode";
    const remedy = known?.remedy ?? "return plain data, or declare the class in createCache({ types })";
    const expected = `plain data, Date, BigInt, Map, Set or Buffer, got ${got}; ${remedy}`;
    return refuse("unserializable", "CACHED_VALUE_UNSERIALIZABLE", expected, cause);
  }
}

/** Not if its tags cannot be derived: it is not stored for that reason. */
const isOutdated = (request: ReadRequest, value: unknown, settings: OwnSettings | undefined): boolean =>
  attempt(() => request.wasOutdated?.(() => subjectsOfLoaded(request.tags, { value, settings }))) === true;

/** Why a value cannot have the tags that are derived from it. */
function mistakeInTags({ tags, key }: ReadRequest, value: unknown): CachedError | undefined {
  try {
    tags.subjectsOf?.(value);
    return undefined;
  } catch (cause) {
    const reason =
      cause instanceof CachedError
        ? cause.message
        : "`tags`: expected properties that can be read, got an exception, the cause of this error; correct their getters";
    return uncached("CACHED_KEY_UNUSABLE", key, reason, cause);
  }
}

/** Returns in what way a load that has ended depends on more than its key. */
export function excessOf(
  request: ReadRequest,
  { privateReads }: SingleLoad,
  privateValues: PrivateValues,
): Excess | undefined {
  const narrowed = (expected: string): Excess => ({
    kind: "unkeyable",
    isNarrowed: true,
    error: uncached("CACHED_SCOPE_NARROWED", request.key, `expected ${expected}`),
  });
  const { policy, identity } = request;
  for (const [owner, coordinate] of privateReads ?? [])
    if (policy.scope !== "PRIVATE")
      return narrowed(
        `the load of a PUBLIC value to read PUBLIC values only, got a read of \`${coordinate}\`, which is PRIVATE; set scope: PRIVATE, or do not read it there`,
      );
    else if (owner !== undefined && owner !== identity)
      return narrowed(
        `the load of a PRIVATE value to read those of its own identity only, got a read of \`${coordinate}\` of another one; let both have the same \`identify\`, or make that one PUBLIC with the identity in its key`,
      );
  const origin = privateValues.originOf(request);
  return origin === undefined
    ? request.excess?.()
    : narrowed(
        `a PUBLIC value to be made from what every caller can get, got ${origin}; set scope: PRIVATE, or scope: PUBLIC on the field or loader itself if every caller gets the same value`,
      );
}

function uncached(code: ErrorCode, { coordinate }: Key, reason: string, cause?: unknown): CachedError {
  const context = cause === undefined ? { coordinate } : { coordinate, cause };
  return new CachedError(code, `\`${coordinate}\`: the value is not cached: ${reason}`, context);
}
