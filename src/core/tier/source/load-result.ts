import { CachedError, type ErrorCode } from "../../base/errors.js";
import { TooLarge, Unstorable } from "../../codec/codec.js";
import type { Encoded, Packing } from "../../codec/packing.js";
import { PromiseFound } from "../../codec/settled.js";
import { type Channel, subjectOf } from "../../telemetry/channel.js";
import { type Excess, LoadedValue, type Refusal } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";
import type { OwnSettings } from "../request/result-control.js";
import { subjectsOfLoaded } from "../request/served-report.js";
import type { SingleLoad, Waiters } from "../request/waiters.js";
import type { PrivateValues } from "./private-values.js";

export interface LoadResult {
  readonly value: unknown;
  readonly settings: OwnSettings | undefined;
  readonly loadMs: number;
  /**
   * Whether the value is known not to be storable, so that it is encoded only if others want
   * copies.
   */
  readonly isUncacheable: boolean;
  /**
   * Whether promises in it have been waited for. Otherwise `loadedOf` returns the `PromiseFound` in
   * place of a value that has one.
   */
  readonly isSettled: boolean;
  readonly waiters: Waiters;
}

/**
 * Returns what readers get of the result of a load: encoded, if it can be stored. Reports why it
 * cannot.
 */
export function loadedOf(
  request: ReadRequest,
  { value, settings, loadMs, isUncacheable, isSettled, waiters }: LoadResult,
  enclosing: SingleLoad,
  {
    packing,
    channel,
    privateValues,
  }: { readonly packing: Packing; readonly channel: Channel; readonly privateValues: PrivateValues },
): LoadedValue | PromiseFound {
  const excess = excessOf(request, enclosing, privateValues);
  const isNarrowed = excess?.kind === "unkeyable" && excess.isNarrowed === true;
  if (isNarrowed) {
    enclosing.outer?.readPrivate(request.key.coordinate);
    privateValues.note(value, request.key.coordinate, request.context);
  }
  const hint = isNarrowed ? { ...request.hintOf?.(), scope: "PRIVATE" as const } : request.hintOf?.();
  const loaded = (content: Encoded | undefined, refusal?: Refusal): LoadedValue =>
    new LoadedValue(value, content, refusal, { hint, settings, loadMs, begunAt: request.begunAt ?? 0 });
  const report = (error: CachedError): void =>
    channel.publish({ name: "value.refused", ...subjectOf(request.key), error });
  if (excess?.kind === "unkeyable") report(excess.error);
  if (excess !== undefined) return loaded(undefined, excess.kind);
  // Only if others want it, and at once: the source, or the caller, can go on to change the value.
  const contentForCopies = (): Encoded | undefined => {
    if (waiters.count <= 1 && request.ending?.isShared !== true) return undefined;
    try {
      return packing.encode(value);
    } catch {
      return undefined;
    }
  };
  if (isOutdated(request, value, settings)) return loaded(contentForCopies(), "outdated");
  if (isUncacheable) return loaded(contentForCopies());
  let content: Encoded | undefined;
  let refused: RefusedValue | undefined;
  try {
    content = packing.encode(value, packing.maxValueBytes);
    refused = refusedValue(request, value, content, packing);
    const unusable = refused === undefined ? mistakeInTags(request, value) : undefined;
    if (unusable !== undefined) {
      report(unusable);
      return loaded(undefined, "unkeyable");
    }
  } catch (cause) {
    if (cause instanceof PromiseFound && !isSettled) return cause;
    refused = cause instanceof TooLarge ? tooLarge("more", packing) : unserializable(cause);
  }
  if (refused === undefined) return loaded(content);
  const { refusal, code, expected, cause } = refused;
  const { coordinate } = request.key;
  const message = `\`${coordinate}\`: the value is not cached: expected ${expected}`;
  report(new CachedError(code, message, cause === undefined ? { coordinate } : { coordinate, cause }));
  // Nobody may get a copy that differs.
  if (refusal === "unserializable") return loaded(undefined, refusal);
  return loaded(content ?? contentForCopies(), refusal);
}

/** Whether a value was made of what is older than an invalidation of it. */
function isOutdated(request: ReadRequest, value: unknown, settings: OwnSettings | undefined): boolean {
  try {
    return request.wasOutdated?.(() => subjectsOfLoaded(request.tags, { value, settings })) === true;
  } catch {
    // Its tags cannot be derived: it is not stored for that reason.
    return false;
  }
}

/**
 * Returns why a value cannot have the tags that are derived from it: what changes it could not be
 * named.
 */
function mistakeInTags({ tags, key: { coordinate } }: ReadRequest, value: unknown): CachedError | undefined {
  try {
    tags.subjectsOf?.(value);
    return undefined;
  } catch (cause) {
    if (!(cause instanceof CachedError) || cause.code !== "CACHED_KEY_UNUSABLE") return undefined;
    return new CachedError(cause.code, `\`${coordinate}\`: the value is not cached: ${cause.message}`, {
      coordinate,
      cause,
    });
  }
}

interface RefusedValue {
  readonly refusal: Refusal;
  readonly code: ErrorCode;
  readonly expected: string;
  readonly cause?: unknown;
}

function refusedValue(
  request: ReadRequest,
  value: unknown,
  content: Encoded,
  packing: Packing,
): RefusedValue | undefined {
  const bytes = packing.excessBytes(content);
  if (bytes !== undefined) return tooLarge(String(bytes), packing);
  const mistake = request.validator?.mistakeInLoaded(value, () => packing.decode(content), request);
  if (mistake === undefined) return undefined;
  if (!mistake.isRestored)
    return {
      refusal: "invalid",
      code: "CACHED_VALUE_INVALID",
      expected: `a value that matches the schema, got ${mistake.what}; correct the resolver, or the type in the schema`,
    };
  return {
    refusal: "unserializable",
    code: "CACHED_VALUE_UNSERIALIZABLE",
    expected: `a value that has the same types when it is restored, got ${mistake.what}; let resolveType and isTypeOf decide by the data, such as \`__typename\``,
  };
}

const tooLarge = (actual: string, { maxValueBytes }: Packing): RefusedValue => ({
  refusal: "too-large",
  code: "CACHED_VALUE_TOO_LARGE",
  expected: `at most ${maxValueBytes} bytes, got ${actual}; return less data, or raise \`storage.maxValueBytes\``,
});

function unserializable(cause: unknown): RefusedValue {
  const known = cause instanceof Unstorable ? cause : undefined;
  const actual = known?.message ?? "a value that the codec could not encode";
  const remedy = known?.remedy ?? "return plain data, or declare the class in createCache({ types })";
  return {
    refusal: "unserializable",
    code: "CACHED_VALUE_UNSERIALIZABLE",
    expected: `plain data, Date, BigInt, Map, Set or Buffer, got ${actual}; ${remedy}`,
    cause,
  };
}

/** Returns in what way a load that has ended depends on more than its key. */
export function excessOf(
  request: ReadRequest,
  { privateCoordinate }: SingleLoad,
  privateValues: PrivateValues,
): Excess | undefined {
  if (privateCoordinate !== undefined && request.policy.scope !== "PRIVATE")
    return narrowed(
      request,
      `the load of a PUBLIC value to read PUBLIC values only, got a read of \`${privateCoordinate}\`, which is PRIVATE; set scope: PRIVATE, or do not read it there`,
    );
  const origin = privateValues.originOf(request);
  return origin === undefined
    ? request.excess?.()
    : narrowed(
        request,
        `a PUBLIC value to be made from what every caller can get, got ${origin}; set scope: PRIVATE, or scope: PUBLIC on the field or loader itself if every caller gets the same value`,
      );
}

function narrowed({ key: { coordinate } }: ReadRequest, expected: string): Excess {
  const message = `\`${coordinate}\`: the value is not cached: expected ${expected}`;
  return {
    kind: "unkeyable",
    isNarrowed: true,
    error: new CachedError("CACHED_SCOPE_NARROWED", message, { coordinate }),
  };
}
