import type { GraphQLResolveInfo } from "graphql";
import type { CacheParts } from "../../parts.js";
import type { EntityFinder } from "../../schema-rules.js";
import type { Resolver } from "./cached-field.js";

/** Wraps a resolver that is not cached: the entities that it returns are parts of the response. Only while a response is executed that is to be stored. */
export function collectingResolver(
  coordinate: string,
  finder: EntityFinder,
  resolve: Resolver,
  { scopes, keys }: CacheParts,
): Resolver {
  const collect = (value: unknown, context: unknown, info: GraphQLResolveInfo): unknown => {
    const collector = scopes.observer(context)?.collector;
    if (collector === undefined) return value;
    const tags = finder.partsIn(value, { context, info });
    if (tags === undefined)
      collector.refuse(
        `the entities in what \`${coordinate}\` returned cannot be found: it has methods, promises, a list that can be read once, or objects without a \`__typename\``,
      );
    else collector.addTags(keys.tags(tags));
    return value;
  };
  return (source, args, context, info) => {
    const value = resolve(source, args, context, info);
    if (!scopes.isCollecting || scopes.observer(context)?.collector === undefined) return value;
    return value instanceof Promise
      ? value.then((settled) => collect(settled, context, info))
      : collect(value, context, info);
  };
}
