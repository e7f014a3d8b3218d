import { GraphQLError, type GraphQLResolveInfo, type GraphQLScalarType } from "graphql";
import { executionOf } from "../../core/base/graphql-version.js";
import { invalidatedSubjects } from "../../core/directive/invalidation/invalidated-tags.js";
import {
  checkInvalidationTarget,
  type InvalidationTarget,
  namesOfInvalidation,
  namesOfOneEntry,
  targetOfCoordinate,
} from "../../core/directive/invalidation/invalidation-target.js";
import { type CacheHandle, partsOf } from "../../core/parts.js";
import type { InvalidationVia } from "../../core/telemetry/events.js";
import type { InvalidationCause } from "../../core/tier/invalidation/invalidation-history.js";
import type { InvalidationNames } from "../../core/tier/shared/unconfirmed-invalidations.js";
import type {
  MutationCacheClearArgs,
  MutationCacheInvalidateAllArgs,
  MutationCacheInvalidateArgs,
  MutationCacheInvalidateTagsArgs,
} from "../../generated/schema.js";
import { checkedAllow, isAllowed, untypedScalar, withCode } from "./access.js";

/**
 * Returns the resolvers of the mutations that invalidate. Callers that `allow` does not admit, and every
 * caller if `allow` throws, get an error with the code `CACHED_INVALIDATION_DENIED`. The errors of
 * `cache.invalidate` get their codes as `extensions.code`.
 *
 * Throws `CACHED_OPTION_INVALID` if `cache` is not a cache or `allow` is missing.
 */
export function invalidationResolvers<Context>(
  cache: CacheHandle<Context>,
  options: InvalidationAccess<Context>,
): InvalidationResolvers {
  const parts = partsOf(cache, "invalidationResolvers");
  const allow = checkedAllow(options, "invalidationResolvers", parts.logger);
  const mutation =
    <Args extends { readonly soft?: boolean }>(
      via: InvalidationVia,
      namesOf: (args: Args) => InvalidationNames | "everything",
    ): Mutation<Args> =>
    async (_source, args, context, info) => {
      if (!(await isAllowed(allow, context))) throw denied(info.fieldName);
      const kind = args.soft === true ? "soft" : "hard";
      try {
        const names = namesOf(args);
        const cause: InvalidationCause = { via };
        await (names === "everything"
          ? parts.invalidation.clear(kind, cause)
          : parts.invalidation.run(names, kind, cause));
      } catch (error) {
        throw withCode(error);
      } finally {
        // What this request reads from now on is read again.
        parts.requestStates.loader(executionOf(info)).clear();
      }
      return true;
    };
  /** Returns the target that the arguments of a mutation name. An argument that is null is a mistake. */
  const targetOf = ({ soft: _, ...given }: MutationCacheInvalidateArgs, caller: string): InvalidationTarget => {
    const target = targetOfCoordinate(parts, given);
    checkInvalidationTarget(target, caller);
    return target;
  };
  return {
    Mutation: {
      cacheInvalidate: mutation("cacheInvalidate", (args) =>
        namesOfOneEntry(parts, targetOf(args, "cacheInvalidate"), {
          caller: "cacheInvalidate",
          otherwise: "call cacheInvalidateAll",
        }),
      ),
      cacheInvalidateAll: mutation("cacheInvalidateAll", (args) =>
        namesOfInvalidation(parts, targetOf(args, "cacheInvalidateAll")),
      ),
      cacheInvalidateTags: mutation("cacheInvalidateTags", ({ tags }) => ({
        keys: [],
        tags: invalidatedSubjects(parts, tags, "cacheInvalidateTags"),
      })),
      cacheClear: mutation("cacheClear", () => "everything"),
    },
    CacheKeyPart: untypedScalar("CacheKeyPart"),
  };
}

/** Options of `invalidationResolvers`. */
export interface InvalidationAccess<Context = never> {
  /** Decides which callers may invalidate. Required: there is no default. */
  readonly allow: (context: Context) => boolean | PromiseLike<boolean>;
}

type Mutation<Args> = (source: unknown, args: Args, context: unknown, info: GraphQLResolveInfo) => Promise<true>;

/** Resolvers for `invalidationTypeDefs`. A type alias, because an interface is not assignable to a map of resolvers. */
export type InvalidationResolvers = {
  readonly Mutation: {
    readonly cacheInvalidate: Mutation<MutationCacheInvalidateArgs>;
    readonly cacheInvalidateAll: Mutation<MutationCacheInvalidateAllArgs>;
    readonly cacheInvalidateTags: Mutation<MutationCacheInvalidateTagsArgs>;
    readonly cacheClear: Mutation<MutationCacheClearArgs>;
  };
  readonly CacheKeyPart: GraphQLScalarType;
};

const denied = (field: string): GraphQLError =>
  new GraphQLError(
    `${field}: access denied: expected a caller for whom \`allow\` of invalidationResolvers returns true; allow this caller there, or remove the mutation from the query`,
    { extensions: { code: "CACHED_INVALIDATION_DENIED" } },
  );
