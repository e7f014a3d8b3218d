import { GraphQLError, type GraphQLScalarType } from "graphql";
import type { CacheHandle } from "../../core/parts.js";
import type {
  CacheEntry,
  CacheFieldStats,
  CacheHotKeys,
  CacheInspectionEntryArgs,
  CacheInspectionEventsArgs,
  CacheInspectionFieldsArgs,
  CacheInspectionHotKeysArgs,
  CacheInspectionInvalidationsArgs,
  CacheInspectionLeasesArgs,
  CacheInspectionStatsArgs,
  CacheInvalidations,
  CacheLease,
  CacheProcess,
  CacheProcessState,
  CacheRecentEvent,
  CacheStats,
} from "../../generated/schema.js";
import { type AccessDetail, checkedAllow, isAllowed, untypedScalar, withCode } from "./access.js";
import { describeEntry } from "./entry.js";
import { describeProcesses, FleetView } from "./fleet-view.js";
import { describeHotKeys } from "./hot-keys.js";
import { inspectedPartsOf } from "./inspected-parts.js";
import { eventsOf, type LiveStore, leasesOf, processStatesOf, storeOf } from "./live-resolvers.js";
import { describeInvalidations } from "./provenance.js";
import { fieldStatsOf, statsOf } from "./statistics.js";

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
  const parts = inspectedPartsOf(cache, "inspectionResolvers");
  const allow = checkedAllow(options, "inspectionResolvers", parts.logger);
  parts.fleet.start();
  return {
    Query: {
      cacheInspection: async (_source, _args, context) => {
        if (!(await isAllowed(allow, context))) throw denied();
        return new FleetView(parts);
      },
    },
    CacheInspection: {
      stats: async (view, { window = "SINCE_START" }) => statsOf(await view.counts(window)),
      fields: async (view, { window = "SINCE_START" }) =>
        fieldStatsOf(parts, await view.counts(window), await view.states()),
      hotKeys: (_source, args, context) =>
        describeHotKeys(parts, args, (coordinate) => isAllowed(allow, context, { kind: "arguments", coordinate })),
      processes: async (view) => describeProcesses(await view.processes()),
      entry: (_source, args) => coded(() => describeEntry(parts, args)),
      leases: (view, args) => coded(() => leasesOf(view, args)),
      store: async (view) => storeOf(parts.store, await view.states()),
      events: (view, args) => coded(() => eventsOf(view, args)),
      states: async (view) => processStatesOf(await view.states()),
      invalidations: (_source, args) => coded(() => describeInvalidations(parts, args)),
    },
    CacheArguments: untypedScalar("CacheArguments"),
    CacheId: untypedScalar("CacheId"),
  };
}

/** Options of `inspectionResolvers`. */
export interface InspectionOptions<Context = never> {
  /**
   * Decides which callers may use the inspection query. Required: there is no default. With `detail`, it decides whether
   * an allowed caller may also see the arguments of hot keys.
   */
  readonly allow: (context: Context, detail?: AccessDetail) => boolean | PromiseLike<boolean>;
}

type Resolver<Source, Args, Result> = (source: Source, args: Args, context: unknown) => Result | Promise<Result>;

/** Resolvers for `inspectionTypeDefs`. A type alias, because an interface is not assignable to a map of resolvers. */
export type InspectionResolvers = {
  readonly Query: { readonly cacheInspection: Resolver<unknown, unknown, object> };
  readonly CacheInspection: {
    readonly stats: Resolver<FleetView, CacheInspectionStatsArgs, CacheStats>;
    readonly fields: Resolver<FleetView, CacheInspectionFieldsArgs, readonly CacheFieldStats[]>;
    readonly hotKeys: Resolver<unknown, CacheInspectionHotKeysArgs, CacheHotKeys>;
    readonly processes: Resolver<FleetView, unknown, readonly CacheProcess[]>;
    readonly entry: Resolver<unknown, CacheInspectionEntryArgs, CacheEntry | null>;
    readonly leases: Resolver<FleetView, CacheInspectionLeasesArgs, readonly CacheLease[]>;
    readonly store: Resolver<FleetView, unknown, LiveStore>;
    readonly events: Resolver<FleetView, CacheInspectionEventsArgs, readonly CacheRecentEvent[]>;
    readonly states: Resolver<FleetView, unknown, readonly CacheProcessState[]>;
    readonly invalidations: Resolver<unknown, CacheInspectionInvalidationsArgs, CacheInvalidations>;
  };
  readonly CacheArguments: GraphQLScalarType;
  readonly CacheId: GraphQLScalarType;
};

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
