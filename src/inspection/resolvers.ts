import { GraphQLError, type GraphQLScalarType } from "graphql";
import type {
  CacheEntry,
  CacheFieldStats,
  CacheHotKeys,
  CacheInspectionEntryArgs,
  CacheInspectionEventsArgs,
  CacheInspectionFieldsArgs,
  CacheInspectionHotKeysArgs,
  CacheInspectionLeasesArgs,
  CacheInspectionStatsArgs,
  CacheLease,
  CacheModeSetting,
  CacheProcess,
  CacheProcessState,
  CacheRecentEvent,
  CacheStats,
} from "../generated/schema.js";
import { type CacheHandle, partsOf } from "../parts.js";
import { type AccessDetail, checkedAllow, isAllowed, untypedScalar, withCode } from "./access.js";
import { describeEntry } from "./entry.js";
import { describeHotKeys } from "./hot-keys.js";
import { eventsOf, type LiveStore, leasesOf, processStatesOf, statesOf, storeOf } from "./live-resolvers.js";
import { modeSettings } from "./mode-setting.js";
import { describeProcesses } from "./processes.js";
import { fieldStatsOf, Statistics, statsOf } from "./statistics.js";

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
    readonly stats: Resolver<unknown, CacheInspectionStatsArgs, CacheStats>;
    readonly fields: Resolver<unknown, CacheInspectionFieldsArgs, readonly CacheFieldStats[]>;
    readonly hotKeys: Resolver<unknown, CacheInspectionHotKeysArgs, CacheHotKeys>;
    readonly processes: Resolver<unknown, unknown, readonly CacheProcess[]>;
    readonly modes: Resolver<unknown, unknown, readonly CacheModeSetting[]>;
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
  parts.fleet.start();
  return {
    Query: {
      cacheInspection: async (_source, _args, context) => {
        if (!(await isAllowed(allow, context))) throw denied();
        return new Statistics(parts.fleet);
      },
    },
    CacheInspection: {
      stats: async (statistics, { window = "SINCE_START" }) => statsOf(await (statistics as Statistics).in(window)),
      fields: async (statistics, { window = "SINCE_START" }) =>
        fieldStatsOf(parts, await (statistics as Statistics).in(window)),
      hotKeys: (_source, args, context) =>
        describeHotKeys(parts, args, (coordinate) => isAllowed(allow, context, { kind: "arguments", coordinate })),
      processes: () => describeProcesses(parts.fleet),
      entry: (_source, args) => coded(() => describeEntry(parts, args)),
      leases: (_source, args) => coded(() => leasesOf(parts, args)),
      store: () => storeOf(parts.store, statesOf(parts)),
      events: (_source, args) => coded(() => eventsOf(parts, args)),
      states: () => processStatesOf(statesOf(parts)),
      modes: () => modeSettings(parts),
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
