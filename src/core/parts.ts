import type { Clock } from "./base/clock.js";
import { CachedError, describeSetting } from "./base/errors.js";
import type { KnownResolvers } from "./base/known-resolvers.js";
import { VERSION } from "./base/version.js";
import type { Packing } from "./codec/packing.js";
import type { KeySpace } from "./keys/key.js";
import type { KnownTags } from "./keys/known-tags.js";
import type { ContextWatch } from "./loader/context-watch.js";
import type { LoaderRule } from "./loader/loader-rule.js";
import type { RequestSignals } from "./loader/request-signals.js";
import type { RequestStates } from "./loader/request-states.js";
import type { TypeShapes } from "./loader/type-shapes.js";
import type { PolicySettings } from "./policy/policy.js";
import type { AppliedRules } from "./schema-rules.js";
import type { FailOpenStore } from "./store/fail-open-store.js";
import type { Channel } from "./telemetry/channel.js";
import type { ContextReadLog } from "./telemetry/context-read-log.js";
import type { Counters } from "./telemetry/counters.js";
import type { Logger } from "./telemetry/log-listener.js";
import type { Invalidation } from "./tier/invalidation/invalidate.js";
import type { ListedTags } from "./tier/invalidation/listed-tags.js";
import type { Leases } from "./tier/lease/leases.js";
import type { Reads } from "./tier/read/reads.js";
import type { Memos } from "./tier/request/known-key.js";
import type { ReadRequest } from "./tier/request/request.js";
import type { InvalidationClock } from "./tier/shared/invalidation-clock.js";
import type { Variants } from "./tier/shared/variants.js";
import type { SourceSettings } from "./tier/source/sources.js";
import type { LongTick } from "./tier/tick/long-tick.js";
import type { WorkUnderWay } from "./tier/tick/work-under-way.js";

/**
 * Returns the parts of a cache. Throws `CACHED_OPTION_INVALID` if `cache` was not made by
 * `createCache`; the message names `caller`.
 */
export function partsOf(cache: unknown, caller: string): CacheParts {
  if (typeof cache === "object" && cache !== null && PARTS in cache) return cache[PARTS] as CacheParts;
  const isOtherCopy = describeSetting(cache) === "an instance of Cache";
  throw new CachedError(
    "CACHED_OPTION_INVALID",
    `${caller}: expected a cache made by createCache(), got ${describeSetting(cache)}` +
      (isOtherCopy ? " of another copy of graphql-cached; install one copy only (see `npm ls graphql-cached`)" : ""),
  );
}

/** Recreates a request from the input of a refresh job. Throws what making its key throws. */
export type RequestFactory = (input: unknown, context: never) => ReadRequest;

export interface CacheParts {
  /** Identifies this cache among all processes: random, 16 hexadecimal digits. */
  readonly processId: string;
  readonly tier: Reads;
  readonly leases: Leases;
  readonly invalidation: Invalidation;
  readonly listedTags: ListedTags;
  readonly requestStates: RequestStates;
  readonly signals: RequestSignals;
  readonly keys: KeySpace;
  /** What is remembered of keys. */
  readonly memos: Memos;
  readonly store: FailOpenStore;
  readonly clock: Clock;
  readonly longTick: LongTick;
  /** How long a miss waits at most for what is not its own load. */
  readonly leaseWaitMs: number;
  /**
   * Whether values can contain instances of users' classes (`types`), whose methods GraphQL calls
   * for fields without a resolver.
   */
  readonly hasValueTypes: boolean;
  /** How long a lease lasts at most: see `longestMsOf`. */
  readonly longestMs: number;
  /** For how long what has failed, or could not be stored, is not tried again for others. */
  readonly errorBackoffMs: number;
  readonly packing: Packing;
  readonly channel: Channel;
  readonly counters: Counters;
  readonly logger: Logger;
  readonly isProduction: boolean;
  readonly onceLog: Logger;
  /** The option `defaults`, with `defaultScope` as its scope. */
  readonly defaults: PolicySettings;
  readonly rules: AppliedRules;
  readonly resolvers: KnownResolvers;
  /** The tags that values can have, to find those that nothing can have. */
  readonly knownTags: KnownTags;
  readonly variants: Variants;
  readonly invalidations: InvalidationClock;
  /** The shapes of the types of applied schemas, for loaders. */
  readonly typeShapes: TypeShapes;
  readonly loaders: Map<string, LoaderRule>;
  /** By coordinate or loader name: recreates requests in a worker that runs refresh jobs. */
  readonly requestFactories: Map<string, RequestFactory>;
  readonly identify: ((context: never) => unknown) | undefined;
  readonly contextWatch: ContextWatch;
  /** What it has found, until it is logged. Adapters log it when a request has ended. */
  readonly contextReads: Pick<ContextReadLog, "collectByRequest" | "flush">;
  readonly limits: SourceSettings;
  readonly underWay: WorkUnderWay;
  /**
   * Resolves when the loads under way have been stored and mutations have invalidated, or after the
   * drain timeout.
   */
  drain(): Promise<void>;
  settled(): Promise<void>;
}

/**
 * Registered: a development server evaluates this package again, and the cache on `globalThis` is
 * of the copy before.
 */
const PARTS: unique symbol = Symbol.for(`graphql-cached.parts ${VERSION}`) as never;

/**
 * The base of every cache: it gives the other modules of this package access to the parts. The
 * protected field makes the type nominal, so that only the result of `createCache` is accepted.
 */
export abstract class CacheHandle<Context> {
  /** Exists in types only: it lets functions infer `Context` from a cache. */
  declare protected readonly contextType: { of(context: Context): void };

  /** @internal */
  constructor(parts: CacheParts) {
    Object.defineProperty(this, PARTS, { value: parts });
  }
}
