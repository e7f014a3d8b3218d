import { GraphQLError, type GraphQLScalarType } from "graphql";
import type {
  CacheEntry,
  CacheFieldStats,
  CacheInspection,
  CacheInspectionEntryArgs,
  CacheModeSetting,
  CacheObservation,
  CacheStats,
} from "../generated/schema.js";
import { type CacheHandle, type CacheParts, partsOf } from "../parts.js";
import type { Counts, ObservedCounts } from "../telemetry/counters.js";
import { checkedAllow, isAllowed, untypedScalar, withCode } from "./access.js";
import { describeEntry } from "./entry.js";
import { modeOf, modeSettings } from "./mode-setting.js";

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
    readonly modes: Resolver<unknown, unknown, readonly CacheModeSetting[]>;
    readonly entry: Resolver<unknown, CacheInspectionEntryArgs, CacheEntry | null>;
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
  return {
    Query: {
      cacheInspection: async (_source, _args, context) => {
        if (!(await isAllowed(allow, context))) throw denied();
        return {} satisfies Partial<CacheInspection>;
      },
    },
    CacheInspection: {
      stats: () => statsOf(parts.counters.total(), parts.counters.storeFailures),
      fields: () => fieldStats(parts),
      modes: () => modeSettings(parts),
      entry: async (_source, args) => {
        try {
          return await describeEntry(parts, args);
        } catch (error) {
          throw withCode(error);
        }
      },
    },
    CacheArguments: untypedScalar("CacheArguments"),
    CacheId: untypedScalar("CacheId"),
  };
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
function fieldStats(parts: CacheParts): CacheFieldStats[] {
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
    const observed = parts.counters.observedOf(coordinate);
    return {
      coordinate,
      maxAge: maxAgeMs / 1000,
      scope,
      variant: variant.id,
      stats: statsOf(counts, 0),
      bypasses,
      mode: modeOf(parts, coordinate),
      observed: observed === undefined ? null : observationOf(observed),
    };
  });
}

const observationOf = (counts: ObservedCounts): CacheObservation => ({
  ...counts,
  hitRatio: counts.hit / counts.reads,
  differentRatio: counts.compared === 0 ? null : counts.different / counts.compared,
});
