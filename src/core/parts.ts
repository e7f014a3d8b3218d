import { describeSetting, optionInvalid } from "./base/errors.js";
import type { KnownResolvers } from "./base/known-resolvers.js";
import { VERSION } from "./base/version.js";
import type { Packing } from "./codec/packing.js";
import type { LoaderParts } from "./loader/context-loader.js";
import type { AppliedRules } from "./schema-rules.js";
import type { FailOpenStore } from "./store/fail-open-store.js";
import type { ContextReadLog } from "./telemetry/context-read-log.js";
import type { Counters } from "./telemetry/counters.js";
import type { ListedTags } from "./tier/invalidation/listed-tags.js";
import type { Leases } from "./tier/lease/leases.js";
import type { ReadRequest } from "./tier/request/request.js";
import type { SourceSettings } from "./tier/source/sources.js";
import type { WorkUnderWay } from "./tier/tick/work-under-way.js";

/** Returns the parts of a cache. Throws `CACHED_OPTION_INVALID`, with `caller`, if it is none. */
export function partsOf(cache: unknown, caller: string): CacheParts {
  if (typeof cache === "object" && cache !== null && PARTS in cache) return cache[PARTS] as CacheParts;
  const isOtherCopy = describeSetting(cache) === "an instance of Cache";
  throw optionInvalid(
    `${caller}: expected a cache made by createCache(), got ${describeSetting(cache)}` +
      (isOtherCopy ? " of another copy of graphql-cached; install one copy only (see `npm ls graphql-cached`)" : ""),
  );
}

/** Recreates a request from the input of a refresh job. Throws what making its key throws. */
export type RequestFactory = (input: unknown, context: never) => ReadRequest;

/** Schemas of one cache, as one for each role, can have variants of their own of a field. */
export const factoryName = (coordinate: string, variantId: string): string => `${coordinate} ${variantId}`;

export interface CacheParts extends LoaderParts {
  /** Identifies this cache among all processes: random, 16 hexadecimal digits. */
  readonly processId: string;
  readonly leases: Leases;
  readonly listedTags: ListedTags;
  readonly store: FailOpenStore;
  /** Whether values can have instances of users' classes (`types`): GraphQL calls their methods. */
  readonly hasValueTypes: boolean;
  readonly longestMs: number;
  readonly errorBackoffMs: number;
  readonly packing: Packing;
  readonly counters: Counters;
  readonly rules: AppliedRules;
  readonly resolvers: KnownResolvers;
  /** What it has found, until it is logged. Adapters log it when a request has ended. */
  readonly contextReads: Pick<ContextReadLog, "collectByRequest" | "flush">;
  readonly limits: SourceSettings;
  readonly underWay: WorkUnderWay;
  /** Resolves when loads are stored and mutations have invalidated, or after the drain timeout. */
  drain(): Promise<void>;
  settled(): Promise<void>;
}

/** Registered, since a development server evaluates this package again, but keeps its cache. */
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
