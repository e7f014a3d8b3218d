import { graphql } from "graphql";
import type { CacheHandle } from "../../core/parts.js";
import { inspectionSchema } from "../../tools/inspection/schema.js";
import type { Permissions } from "./permissions.js";
import { readError, type Source } from "./source.js";

/** Returns a source that runs the resolvers of the inspection on a cache of this process. */
export function cacheSource(cache: CacheHandle<never>): Source {
  const schema = inspectionSchema<Permissions>(cache as never, {
    inspection: (permissions, detail) => permissions.mayLook(detail),
    control: (permissions) => permissions.maySetModes(),
    invalidation: (permissions) => permissions.mayInvalidate(),
  });
  return {
    ask: async (query, variables, { permissions }) => {
      const { data, errors = [] } = await graphql({
        schema,
        source: query,
        variableValues: variables,
        contextValue: permissions,
      });
      return { data: data ?? undefined, errors: errors.map(readError) };
    },
  };
}
