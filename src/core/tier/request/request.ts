import type { CachedError } from "../../base/errors.js";
import type { Key, Subject } from "../../keys/key.js";
import type { Policy } from "../../policy/policy.js";
import type { Entry } from "../../store/entry.js";
import type { ResponseHint } from "../../store/entry-layout.js";
import type { BypassReason, ReadOutcome } from "../../telemetry/events.js";
import type { ReadTrace } from "../../telemetry/tracing.js";
import type { DecodedValue } from "../entry/entry-decoder.js";
import type { KnownKey } from "./known-key.js";
import type { Excess, Loaded, Refusal } from "./loaded.js";
import type { ResultControl } from "./result-control.js";
import type { RequestTags } from "./tags.js";
import type { Caller, CallSignals, Waiters } from "./waiters.js";

/** One read of one key: everything the tier needs to know, independent of GraphQL. */
export interface ReadRequest {
  readonly key: Key;
  readonly policy: Policy;
  readonly tags: RequestTags;
  readonly known?: KnownKey | undefined;
  /**
   * Loads the value from its source. Called at most once, if this request wins the lease or
   * bypasses the cache. `waiters.signal` aborts when nobody waits for this load any more. With
   * `result`, the load says how its result is cached.
   */
  load(waiters: Waiters, result: ResultControl): unknown;
  /** What passes the loads of a tick to their source in one call. Default: each load is a call. */
  readonly batch?: SourceBatch | undefined;
  readonly needsNoSlot?: boolean | undefined;
  readonly owner?: object | undefined;
  /** Whose the value is, if it is PRIVATE. */
  readonly identity?: string | undefined;
  /** Returns the abort signals of the caller's request. Called on a miss. */
  readonly signals?: (() => CallSignals | undefined) | undefined;
  readonly hintOf?: (() => ResponseHint | undefined) | undefined;
  /** Returns why the context no longer fits key and tags. Called when a load begins and ends. */
  changed?(): CachedError | undefined;
  /** Returns in what way the load that this request ran depends on more than the key. */
  readonly excess?: (() => Excess | undefined) | undefined;
  /** Whether the caller wants a value that is loaded now, no matter what is stored. */
  readonly isForced?: boolean | undefined;
  /** Returns plain data from which another process can make the same request, if one can. */
  readonly input?: (() => unknown) | undefined;
  /** Called when nothing is stored. False: the value does not exist, and is null. Never rejects. */
  readonly mayExist?: (() => Promise<boolean>) | undefined;
  /** Checks values when they are loaded and when they are read. Default: every value is valid. */
  readonly validator?: Validator | undefined;
  /** The `info` and the context of the resolver call, for the validator. */
  readonly call?: { readonly path?: Place | undefined } | undefined;
  readonly context?: unknown;
  /** What the load uses besides its key: the parent object of a field, or a loader's id. */
  readonly source?: unknown;
  /** The latest clock position shown when its execution began. Undefined: depends on no read. */
  readonly begunAt?: number;
  /** Whether a load would use what may be outdated, such as a parent: only its caller gets it. */
  isOutdated?(): boolean;
  /** The same of an ended load. `subjectsOf` returns its value's tags, called only if needed. */
  wasOutdated?(subjectsOf: () => readonly Subject[]): boolean;
  /** Where the tier notes how the read has ended, for those who read the key again. */
  readonly ending?: ReadEnding | undefined;
  /** Set by the tier on a miss, if the caller's request can be aborted. */
  caller?: Caller | undefined;
  /** Set by the tier while reads are traced. */
  trace?: ReadTrace | undefined;
  readonly onRead?: ((report: ReadReport) => void) | undefined;
  /** Called with the hint of another request's load, for its value, unless `onRead` was. */
  readonly onHint?: ((hint: ResponseHint) => void) | undefined;
}

/** The path of a field, or of a member of a list. Those of fields name their type. */
export interface Place {
  readonly prev: Place | undefined;
  readonly typename?: string | undefined;
}

/** Passes several loads to their source in one call. */
export interface SourceBatch {
  /** The maximum number of loads per call. Default: no limit. */
  readonly maxSize: number | undefined;
  /** What passes those of them that run in the asynchronous context of no request. */
  readonly outside?: SourceBatch;
}

/** Checks values against the type of a field. Messages do not name the value. */
export interface Validator {
  /** Returns what GraphQL would refuse in a stored value for the selection of `request`. */
  mistakeIn(value: unknown, request: Pick<ReadRequest, "call" | "context">): string | undefined;
  /** The same for a loaded value, and for what `restore` returns, which readers get of it. */
  mistakeInLoaded(
    value: unknown,
    restore: () => unknown,
    request: Pick<ReadRequest, "call" | "context">,
  ): LoadedMistake | undefined;
}

/** What GraphQL would refuse in a loaded value, or take for something else once it is restored. */
export interface LoadedMistake {
  readonly what: string;
  readonly isRestored: boolean;
}

export type ReadReport =
  | ServedReport
  | { readonly outcome: "bypassed"; readonly isPrivate: boolean; readonly reason: BypassReason };

export interface ServedReport {
  readonly outcome: Exclude<ReadOutcome, "bypassed">;
  readonly hasFailed: boolean;
  readonly isPrivate: boolean;
  readonly freshForMs: number;
  readonly ageMs: number;
  /** How long it may be served after that while it is refreshed. */
  readonly staleForMs: number;
  readonly hint: ResponseHint | undefined;
  readonly refusal?: Refusal | undefined;
  /** All tags of the value: known before its load or derived from it. */
  readonly subjects: readonly Subject[];
}

/** How a read has ended: what another reader of its key gets. It lives longer than the request. */
export interface ReadEnding extends DecodedHolder {
  /** What copies of the value are made from, or the failed load of this request. */
  readonly origin: Entry | Loaded | undefined;
  hint: ResponseHint | undefined;
  /** Whether the key has been read again, so that copies of the value are wanted. */
  readonly isShared: boolean;
  endWith(origin: Entry | Loaded): void;
}

/** Has the decoded value of which readers get copies, so that none sees what another does. */
export interface DecodedHolder {
  decoded?:
    | {
        readonly input: string;
        /** See `Policy.readOnly`: all readers share the value, which is frozen. */
        readonly readOnly: boolean | undefined;
        readonly value: DecodedValue;
        readonly copy: (value: unknown) => unknown;
      }
    | undefined;
}
