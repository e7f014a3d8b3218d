import { GraphQLError, type GraphQLScalarType } from "graphql";
import type {
  CacheEntry,
  CacheFieldStats,
  CacheInspection,
  CacheInspectionEntryArgs,
  CacheInspectionEventsArgs,
  CacheInspectionLeasesArgs,
  CacheLease,
  CacheProcessState,
  CacheRecentEvent,
  CacheStats,
} from "../generated/schema.js";
import { type CacheHandle, type CacheParts, partsOf } from "../parts.js";
import type { Counts } from "../telemetry/counters.js";
import { checkedAllow, isAllowed, untypedScalar, withCode } from "./access.js";
import { describeEntry } from "./entry.js";
import { eventsOf, type LiveStore, leasesOf, processStatesOf, sourceStatesOf, storeOf } from "./live-resolvers.js";
import { type ProcessState, processStateOf } from "./process-state.js";

/** Options of `inspectionResolvers`. */
export interface InspectionOptions<Context = never> {
  /** Decides which callers may use the inspection query. Required: there is no default. */
  readonly allow: (context: Context) => boolean | PromiseLike<boolean>;
}

type Resolver<Source, Args, Result> = (source: Source, args: Args, context: unknown) => Result | Promise<Result>;

/** Resolvers for `inspectionTypeDefs`. A type alias, because an interface is not assignable to a map of resolvers. */
export type InspectionResolvers = {
  readonly Query: { readonly cacheInspection: Resolver<unknown, unknown, object> };
  readonly CacheInspection: {
    readonly stats: Resolver<unknown, unknown, CacheStats>;
    readonly fields: Resolver<unknown, unknown, readonly CacheFieldStats[]>;
    readonly entry: Resolver<unknown, CacheInspectionEntryArgs, CacheEntry | null>;
    readonly leases: Resolver<unknown, CacheInspectionLeasesArgs, readonly CacheLease[]>;
    readonly store: Resolver<unknown, unknown, LiveStore>;
    readonly events: Resolver<unknown, CacheInspectionEventsArgs, readonly CacheRecentEvent[]>;
    readonly states: Resolver<unknown, unknown, readonly CacheProcessState[]>;
  };
  readonly CacheArguments: GraphQLScalarType;
  readonly CacheId: GraphQLScalarType;
};

/**
 * Returns the resolvers of the inspection query. Callers that `allow` does not admit, and every
 * caller if `allow` throws, get an error with the code `CACHED_INSPECTION_DENIED`. Arguments that name no entry
 * get theirs as `extensions.code` as well.
 *
 * Throws `CACHED_OPTION_INVALID` if `cache` is not a cache or `allow` is missing.
 */
export function inspectionResolvers<Context>(
  cache: CacheHandle<Context>,
  options: InspectionOptions<Context>,
): InspectionResolvers {
  const parts = partsOf(cache, "inspectionResolvers");
  const allow = checkedAllow(options, "inspectionResolvers");
  const statesOf = (maxListed?: number): readonly ProcessState[] => [processStateOf(parts, maxListed)];
  return {
    Query: {
      cacheInspection: async (_source, _args, context) => {
        if (!(await isAllowed(allow, context))) throw denied();
        return {} satisfies Partial<CacheInspection>;
      },
    },
    CacheInspection: {
      stats: () => statsOf(parts.counters.total(), parts.counters.storeFailures),
      fields: () => fieldStats(parts, statesOf()),
      entry: (_source, args) => coded(() => describeEntry(parts, args)),
      leases: (_source, args) => coded(() => leasesOf(statesOf, args)),
      store: () => storeOf(parts.store, statesOf()),
      events: (_source, args) => coded(() => eventsOf(statesOf, args)),
      states: () => processStatesOf(statesOf()),
    },
    CacheArguments: untypedScalar("CacheArguments"),
    CacheId: untypedScalar("CacheId"),
  };
}

/** Rejects with an error that servers send to clients, if it is one of this package. */
async function coded<Result>(run: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    throw withCode(error);
  }
}

const denied = (): GraphQLError =>
  new GraphQLError("cacheInspection: access denied by `allow`", {
    extensions: { code: "CACHED_INSPECTION_DENIED" },
  });

function statsOf(counts: Counts, storeFailures: number): CacheStats {
  const { bypasses: _, ...numbers } = counts;
  return { ...numbers, storeFailures };
}

/** The loaders follow the fields. */
function fieldStats(parts: CacheParts, states: readonly ProcessState[]): CacheFieldStats[] {
  const loaders = [...parts.loaders.values()].map(({ name, policy, variantOf }) => ({
    coordinate: name,
    policy,
    variant: variantOf(),
  }));
  return [...parts.rules.fields.values(), ...loaders].map(({ coordinate, policy, variant }) => {
    const counts = parts.counters.of(coordinate);
    const bypasses = [...counts.bypasses]
      .map(([reason, reads]) => ({ reason, reads }))
      .sort((a, b) => b.reads - a.reads);
    const { maxAgeMs, scope } = policy;
    return {
      coordinate,
      maxAge: maxAgeMs / 1000,
      scope,
      variant: variant.id,
      stats: statsOf(counts, 0),
      bypasses,
      ...sourceStatesOf(states, coordinate),
    };
  });
}
