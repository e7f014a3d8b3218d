import { GraphQLError, GraphQLScalarType } from "graphql";
import { wallTimeOf } from "../../core/base/clock.js";
import { CachedError, optionInvalid } from "../../core/base/errors.js";
import { type CacheHandle, type CacheParts, partsOf } from "../../core/parts.js";
import type {
  CacheCounts,
  CacheEntry,
  CacheEvent,
  CacheFieldPolicy,
  CacheInspectionCountsArgs,
  CacheInspectionEntryArgs,
  CacheInspectionEventsArgs,
  CacheProcess,
} from "../../generated/schema.js";
import { checkedAllow } from "./access.js";
import { describeCounts } from "./counts.js";
import { describeEntry } from "./entry.js";
import { describePolicies } from "./policies.js";
import type { KnownReports, Reports } from "./reports.js";

/**
 * Returns the resolvers of the inspection query. Callers that `allow` does not admit, and every
 * caller if `allow` throws, get an error with the code `CACHED_INSPECTION_DENIED`. Arguments that
 * name no entry get theirs as `extensions.code` as well.
 *
 * Throws `CACHED_OPTION_INVALID` if `cache` is not a cache or `allow` is missing.
 */
export function inspectionResolvers<Context>(
  cache: CacheHandle<Context>,
  options: InspectionOptions<Context>,
): InspectionResolvers {
  // Only `assemble` makes parts, and it makes them with reports.
  const parts = partsOf(cache, "inspectionResolvers") as InspectedParts;
  const isAllowed = checkedAllow(options, "inspectionResolvers", parts.logger);
  parts.reports.start();
  return {
    Query: {
      cacheInspection: async (_source, _args, context) => {
        if (!(await isAllowed(context)))
          throw new GraphQLError("cacheInspection: access denied by `allow`", {
            extensions: { code: "CACHED_INSPECTION_DENIED" },
          });
        let reading: Promise<KnownReports> | undefined;
        // All parts of one answer show the same reports.
        return { reports: () => (reading ??= parts.reports.read()) };
      },
    },
    CacheInspection: {
      entry: (view, args) => coded(() => describeEntry(parts, args, () => eventsIn(view))),
      policies: () => describePolicies(parts),
      counts: (view, { process = null }) =>
        coded(async () => describeCounts((await view.reports()).reports, process, wallTimeOf(parts.clock))),
      processes: async (view) => describeProcesses(await view.reports(), parts),
      missing: async (view) => (await view.reports()).missing,
      events: (view, { first = 100, coordinate }) =>
        coded(async () => {
          if (first < 1 || first > MAX_EVENTS)
            throw optionInvalid(
              `cacheInspection.events: \`first\`: expected an integer from 1 to ${MAX_EVENTS}, got ${first}`,
            );
          const events = await eventsIn(view);
          const concerns = ({ coordinates, invalidation }: CacheEvent): boolean =>
            coordinate == null || coordinates.includes(coordinate) || invalidation?.isClear === true;
          return events.filter(concerns).slice(0, first);
        }),
    },
    // A scalar without functions takes any value, as it is.
    CacheArguments: new GraphQLScalarType({ name: "CacheArguments" }),
    CacheId: new GraphQLScalarType({ name: "CacheId" }),
  };
}

const MAX_EVENTS = 1_000;

/** Options of `inspectionResolvers`. */
export interface InspectionOptions<Context = never> {
  /** Decides which callers may use the inspection query. Required: there is no default. */
  readonly allow: (context: Context) => boolean | PromiseLike<boolean>;
}

/** What `createCache` assembles. */
export interface InspectedParts extends CacheParts {
  readonly reports: Reports;
}

interface View {
  reports(): Promise<KnownReports>;
}

type Resolver<Source, Args, Result> = (source: Source, args: Args, context: unknown) => Result | Promise<Result>;

/** Resolvers for `inspectionTypeDefs`. No interface: that would be no map of resolvers. */
export type InspectionResolvers = {
  readonly Query: { readonly cacheInspection: Resolver<unknown, unknown, object> };
  readonly CacheInspection: {
    readonly entry: Resolver<View, CacheInspectionEntryArgs, CacheEntry>;
    readonly policies: Resolver<View, unknown, readonly CacheFieldPolicy[]>;
    readonly counts: Resolver<View, CacheInspectionCountsArgs, CacheCounts>;
    readonly processes: Resolver<View, unknown, readonly CacheProcess[]>;
    readonly missing: Resolver<View, unknown, string | null>;
    readonly events: Resolver<View, Partial<CacheInspectionEventsArgs>, readonly CacheEvent[]>;
  };
  readonly CacheArguments: GraphQLScalarType;
  readonly CacheId: GraphQLScalarType;
};

const describeProcesses = ({ reports }: KnownReports, { processId }: CacheParts): CacheProcess[] =>
  reports.map(({ info, details }) => ({
    ...info,
    isThis: info.id === processId,
    startedAt: new Date(info.startedAt).toISOString(),
    reportedAt: new Date(info.reportedAt).toISOString(),
    isComplete: details !== undefined,
  }));

async function eventsIn(view: View): Promise<readonly CacheEvent[]> {
  const { reports } = await view.reports();
  return reports
    .flatMap(({ info, details }) => (details?.events ?? []).map((event) => ({ process: info.id, event })))
    .sort((a, b) => b.event.at - a.event.at)
    .map(({ process, event: { at, ...event } }) => ({ ...event, process, at: new Date(at).toISOString() }));
}

/** Servers send the message and code of a GraphQL error to clients, and may mask others. */
async function coded<Result>(run: () => Promise<Result>): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof CachedError)) throw error;
    const { message, code } = error;
    throw new GraphQLError(message, { originalError: error, extensions: { code } });
  }
}
