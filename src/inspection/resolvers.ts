import { GraphQLError, GraphQLScalarType, valueFromASTUntyped } from "graphql";
import { checkTarget, keyOfCoordinate } from "../directive/coordinate-key.js";
import { tagsOf } from "../directive/field-rule.js";
import { CachedError, describeSetting } from "../errors.js";
import type {
  CacheEntry,
  CacheEntryState,
  CacheFieldStats,
  CacheInspection,
  CacheInspectionEntryArgs,
  CacheStats,
} from "../generated/schema.js";
import { type CacheHandle, type CacheParts, partsOf } from "../parts.js";
import type { Entry } from "../store/entry.js";
import type { Counts } from "../telemetry/counters.js";

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
  };
  readonly CacheArguments: GraphQLScalarType;
};

/**
 * Returns the resolvers of the inspection query. Callers that `allow` does not admit, and every
 * caller if `allow` throws, get an error with the code `CACHED_INSPECTION_DENIED`.
 *
 * Throws `CACHED_OPTION_INVALID` if `cache` is not a cache or `allow` is missing.
 */
export function inspectionResolvers<Context>(
  cache: CacheHandle<Context>,
  options: InspectionOptions<Context>,
): InspectionResolvers {
  const parts = partsOf(cache, "inspectionResolvers");
  const { allow } = (options ?? {}) as Partial<InspectionOptions<Context>>;
  if (typeof allow !== "function")
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `inspectionResolvers: \`allow\`: expected a function that returns true or false for a context, got ${describeSetting(allow)}`,
    );
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
      entry: (_source, args) => describeEntry(parts, args),
    },
    CacheArguments: new GraphQLScalarType({
      name: "CacheArguments",
      parseValue: (value) => value,
      parseLiteral: (node, variables) => valueFromASTUntyped(node, variables),
    }),
  };
}

/** Whether `allow` returns exactly true for this context. Never rejects. */
export async function isAllowed(allow: (context: never) => unknown, context: unknown): Promise<boolean> {
  try {
    return (await allow(context as never)) === true;
  } catch {
    return false;
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

function fieldStats(parts: CacheParts): CacheFieldStats[] {
  return [...parts.rules.fields.values()].map(({ coordinate, policy, variant }) => {
    const counts = parts.counters.of(coordinate);
    const bypasses = [...counts.bypasses]
      .map(([reason, reads]) => ({ reason, reads }))
      .sort((a, b) => b.reads - a.reads);
    const { maxAgeMs, scope } = policy;
    return { coordinate, maxAge: maxAgeMs / 1000, scope, variant: variant.id, stats: statsOf(counts, 0), bypasses };
  });
}

async function describeEntry(parts: CacheParts, args: CacheInspectionEntryArgs): Promise<CacheEntry | null> {
  // A client passes null for a variable that it does not set.
  const given = Object.entries(args).filter(([, value]) => value !== undefined && value !== null);
  const target: unknown = Object.fromEntries(given);
  checkTarget(target, "cacheInspection.entry");
  const { key, rule, roots, identity } = keyOfCoordinate(parts, target);
  const tags = tagsOf(rule, roots, identity, parts.keys);
  const { readings, tagVersions, controlVersion } = await parts.store.read([key.name], tags.names);
  const [reading] = readings;
  if (reading?.kind === "failed" || !(await parts.control.prepare(controlVersion, [], parts.clock.now())))
    throw new GraphQLError("the store did not reply", { extensions: { code: "CACHED_STORE_UNAVAILABLE" } });
  if (reading?.entry === undefined) return null;
  return described(reading.entry, reading.now, parts.control.signatureOf({ key, tags }, tagVersions));
}

function described(entry: Entry, now: number, signature: string | undefined): CacheEntry {
  const isValue = entry.state === "value";
  return {
    state: entry.state.toUpperCase().replaceAll("-", "_") as CacheEntryState,
    negative: entry.isNegative,
    ageMs: isValue ? now - entry.grantedAt : 0,
    freshForMs: isValue ? entry.freshUntilAt - now : 0,
    loadMs: entry.loadMs,
    valueBytes: isValue ? entry.body.byteLength : 0,
    leaseForMs: entry.gen !== "" && entry.untilAt > now ? entry.untilAt - now : null,
    outdated: entry.state !== "write-in-progress" && entry.signature !== signature,
  };
}
