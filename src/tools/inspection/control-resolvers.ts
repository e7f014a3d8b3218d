import { GraphQLError } from "graphql";
import { type CacheHandle, partsOf } from "../../core/parts.js";
import type { CacheModeSetting, MutationCacheSetModeArgs } from "../../generated/schema.js";
import { checkedAllow, isAllowed, withCode } from "./access.js";
import { modeSettings, setMode } from "./mode-setting.js";

/**
 * Returns the resolvers of the mutation that changes modes. Callers that `allow` does not admit, and every
 * caller if `allow` throws, get an error with the code `CACHED_CONTROL_DENIED`. The errors of
 * `cache.setMode` get their codes as `extensions.code`.
 *
 * Throws `CACHED_OPTION_INVALID` if `cache` is not a cache or `allow` is missing.
 */
export function controlResolvers<Context>(
  cache: CacheHandle<Context>,
  options: ControlAccess<Context>,
): ControlResolvers {
  const parts = partsOf(cache, "controlResolvers");
  const allow = checkedAllow(options, "controlResolvers", parts.logger);
  return {
    Mutation: {
      cacheSetMode: async (_source, { mode, coordinate }, context) => {
        if (!(await isAllowed(allow, context))) throw denied();
        try {
          await setMode(parts, { mode: mode.toLowerCase(), coordinate: coordinate ?? undefined }, "cacheSetMode");
        } catch (error) {
          throw withCode(error);
        }
        return modeSettings(parts);
      },
    },
  };
}

/** Options of `controlResolvers`. */
export interface ControlAccess<Context = never> {
  /** Decides which callers may change modes. Required: there is no default. */
  readonly allow: (context: Context) => boolean | PromiseLike<boolean>;
}

/** Resolvers for `controlTypeDefs`. A type alias, because an interface is not assignable to a map of resolvers. */
export type ControlResolvers = {
  readonly Mutation: {
    readonly cacheSetMode: (
      source: unknown,
      args: MutationCacheSetModeArgs,
      context: unknown,
    ) => Promise<readonly CacheModeSetting[]>;
  };
};

const denied = (): GraphQLError =>
  new GraphQLError(
    "cacheSetMode: access denied: expected a caller for whom `allow` of controlResolvers returns true; allow this caller there, or remove the mutation from the query",
    { extensions: { code: "CACHED_CONTROL_DENIED" } },
  );
