import type { CachedError } from "../../base/errors.js";
import type { Key, Subject } from "../../keys/key.js";
import type { Policy } from "../../policy/policy.js";
import type { Entry } from "../../store/entry.js";
import type { ResponseHint } from "../../store/entry-layout.js";
import type { Reading } from "../../store/store.js";
import type { BypassReason, ReadOutcome } from "../../telemetry/events.js";
import type { ReadTrace } from "../../telemetry/tracing.js";
import type { DecodedValue } from "../entry/entry-decoder.js";
import type { KnownKey } from "./known-key.js";
import type { Excess, Loaded, Refusal } from "./loaded.js";
import type { ResultControl } from "./result-control.js";
import type { RequestTags } from "./tags.js";
import type { Caller, CallSignals, Waiters } from "./waiters.js";

/**
 * Returns whether an entry has more tags than its request knows of, since its load has added some.
 */
export const hasMoreTags = ({ tags }: Pick<ReadRequest, "tags">, subjects: readonly Subject[]): boolean =>
  tags.subjectsOf === undefined && subjects.length > tags.subjects.length;

/** How one read ended. */
export type ReadReport =
  | {
      readonly outcome: Exclude<ReadOutcome, "bypassed">;
      readonly isPrivate: boolean;
      readonly freshForMs: number;
      readonly ageMs: number;
      /** How long it may be served after that while it is refreshed. */
      readonly staleForMs: number;
      /** The cache hint that the load gave. */
      readonly hint: ResponseHint | undefined;
      /** Why the value that was loaded is not stored. */
      readonly refusal?: Refusal | undefined;
      /** All tags of the value: known before its load or derived from it. */
      readonly subjects: readonly Subject[];
    }
  | { readonly outcome: "bypassed"; readonly isPrivate: boolean; readonly reason: BypassReason };

/** Checks values against the type of a field. Messages do not name the value. */
export interface Validator {
  /**
   * Returns what GraphQL would refuse in a stored value for the selection of `request`. Undefined:
   * nothing.
   */
  mistakeIn(value: unknown, request: Pick<ReadRequest, "call" | "context">): string | undefined;
  /**
   * The same for a value that has just been loaded, and what readers get once it is stored:
   * `restore` returns that.
   */
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

/** Passes several loads to their source in one call. */
export interface SourceBatch {
  /** The maximum number of loads per call. Undefined: no limit. */
  readonly maxSize: number | undefined;
}

/** One read of one key: everything the tier needs to know, independent of GraphQL. */
export interface ReadRequest {
  readonly key: Key;
  readonly policy: Policy;
  readonly tags: RequestTags;
  /** Where the value is kept in memory. Undefined: nowhere. */
  readonly known?: KnownKey | undefined;
  /**
   * Loads the value from its source. Called at most once, if this request wins the lease or
   * bypasses the cache. `waiters.signal` aborts when nobody waits for this load any more. With
   * `result`, the load says how its result is cached.
   */
  load(waiters: Waiters, result: ResultControl): unknown;
  /**
   * What passes the loads of a tick to their source in one call. Undefined: each load is a call.
   */
  readonly batch?: SourceBatch | undefined;
  /** Whether its load waits for no slot of the bulkhead. */
  readonly needsNoSlot?: boolean | undefined;
  /** Identifies the request of the server that this read belongs to. Undefined: none. */
  readonly owner?: object | undefined;
  /**
   * Returns the abort signals of the caller's request. Called on a miss. Undefined: it has none.
   */
  readonly signals?: (() => CallSignals | undefined) | undefined;
  /** Returns the cache hint of the load that this request ran. */
  readonly hintOf?: (() => ResponseHint | undefined) | undefined;
  /**
   * Returns the error with which a load fails whose context has another identity, or other values
   * in the key or the tags, than when the request was made. Undefined: it has the same. Called when
   * a load begins and when it ends.
   */
  changed?(): CachedError | undefined;
  /**
   * Returns in what way the load that this request ran depends on more than the key. Undefined: it
   * never does.
   */
  readonly excess?: (() => Excess | undefined) | undefined;
  /** Whether the caller wants a value that is loaded now, no matter what is stored. */
  readonly isForced?: boolean | undefined;
  /**
   * Returns plain data from which another process can make the same request. Undefined if none can.
   */
  readonly input?: (() => unknown) | undefined;
  /**
   * Called when nothing is stored: resolves with false if the value does not exist, so that it is
   * null. Never rejects.
   */
  readonly mayExist?: (() => Promise<boolean>) | undefined;
  /** Checks values when they are loaded and when they are read. Undefined: every value is valid. */
  readonly validator?: Validator | undefined;
  /** The `info` and the context of the resolver call, for the validator. */
  readonly call?: unknown;
  readonly context?: unknown;
  /**
   * What the load is made from besides its key: the parent object of a field, or the id of a loader
   * whose key is not all of it.
   */
  readonly source?: unknown;
  /**
   * The latest position of the invalidation clock that was shown when its execution began.
   * Undefined: it depends on nothing that was read before.
   */
  readonly begunAt?: number;
  /**
   * Whether its load would be made of what may be older than an invalidation of its value, such as
   * a parent: the result would be its caller's alone.
   */
  isOutdated?(): boolean;
  /**
   * The same of a load that has ended. `subjectsOf`: returns all tags of its value, which are asked
   * for only if something was invalidated.
   */
  wasOutdated?(subjectsOf: () => readonly Subject[]): boolean;
  /**
   * Where the tier notes how the read has ended, for those who read the key again. Undefined:
   * nobody does.
   */
  readonly ending?: ReadEnding | undefined;
  /** Set by the tier on a miss, if the caller's request can be aborted. */
  caller?: Caller | undefined;
  /** Set by the tier while reads are traced. */
  trace?: ReadTrace | undefined;
  /** Called when the read has ended. */
  readonly onRead?: ((report: ReadReport) => void) | undefined;
  /**
   * Called with the cache hint of a load of another request whose value this one gets, unless
   * `onRead` was.
   */
  readonly onHint?: ((hint: ResponseHint) => void) | undefined;
}

/** How a read has ended: what another reader of its key gets. It lives longer than the request. */
export interface ReadEnding extends DecodedHolder {
  /**
   * What further copies of the value are made from. A `Loaded` without content cannot be copied.
   * After a failure, the failed load of this request, if any.
   */
  readonly origin: Entry | Loaded | undefined;
  /** The cache hint that the load of the value gave. */
  hint: ResponseHint | undefined;
  /** Whether the key has been read again, so that copies of the value are wanted. */
  readonly isShared: boolean;
  /** Sets `origin`. */
  endWith(origin: Entry | Loaded): void;
}

/**
 * The outcome of a miss. Called once for each request that shares it: reports how that was served,
 * and returns a value of its own, or a promise of one. Throws or rejects with an error of the
 * source only.
 */
export type Respond = (request: ReadRequest) => unknown;

/** The result of one store read, which requests of one tick for the same key share. */
export class ReadResult implements DecodedHolder {
  reading: Reading;
  /** When the read began, before anything was sent, on the clock of this process. */
  sentAt: number;
  /** How many requests that share the result have not decoded its value yet. */
  readersLeft = 1;
  decoded: DecodedToShare | undefined = undefined;
  /** The miss, once one of the requests has begun or joined it for all of them. */
  miss: SharedMiss | undefined = undefined;

  constructor(reading: Reading, sentAt: number) {
    this.reading = reading;
    this.sentAt = sentAt;
  }
}

/**
 * Where a value is kept, once one of several readers has decoded it and the others can have copies.
 */
export interface DecodedHolder {
  decoded?: DecodedToShare | undefined;
}

/**
 * A decoded value of which other readers get copies, so that none of them sees what another does to
 * it.
 */
export interface DecodedToShare {
  /** The input of the key for which it was decoded. */
  readonly input: string;
  /** See `Policy.readOnly`: all readers share the value, which is frozen. */
  readonly readOnly: boolean | undefined;
  readonly value: DecodedValue;
  readonly copy: (value: unknown) => unknown;
}

/**
 * The load that a request has waited for: that of a request of this process, or one of another
 * process.
 */
export interface AwaitedLoad {
  readonly request: ReadRequest | "elsewhere";
  /** The id of its lease chain. */
  readonly gen?: string | undefined;
}

/** A miss that several requests share. */
export interface SharedMiss {
  /** The one that it was begun for: others have the same key, and the same tags. */
  readonly request: ReadRequest;
  readonly waiters: Waiters;
  /** When its requests stop waiting, on the clock of this process. */
  readonly deadlineAt: number;
  answer(request: ReadRequest): Promise<unknown>;
}
