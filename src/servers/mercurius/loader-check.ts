import type { GraphQLSchema } from "graphql";
import { CachedError } from "../../core/base/errors.js";
import { replacedResolvers } from "../../core/directive/compile/served-schema.js";
import type { CacheParts } from "../../core/parts.js";

/** Throws `CACHED_SCHEMA_INVALID` if a loader of Mercurius replaces a cached resolver. */
export function refuseLoaders(app: object, graphql: Loading, parts: CacheParts): void {
  const isCached = (coordinate: string): boolean => parts.rules.fields.has(coordinate);
  const refuse = (coordinates: readonly string[], caller: string): void => {
    if (coordinates.length === 0) return;
    const list = coordinates.map((coordinate) => `\`${coordinate}\``).join(", ");
    const mistake = `${caller}: expected cached fields without \`loaders\` of Mercurius, got one for ${list}, which replaces the cached resolver; remove it and use cache.loader in the resolver, or remove \`@cached\``;
    throw new CachedError("CACHED_SCHEMA_INVALID", mistake, { coordinate: coordinates[0] as string });
  };
  const { schema, defineLoaders } = graphql;
  if (schema !== undefined) refuse(replacedResolvers(schema, loaderNamesOf(app).filter(isCached)), "cachedHooks");
  if (defineLoaders === undefined) return;
  graphql.defineLoaders = (loaders) => {
    const named = Object.entries(loaders).flatMap(([type, fields]) =>
      Object.keys(fields).map((field) => `${type}.${field}`),
    );
    refuse(named.filter(isCached), "defineLoaders");
    defineLoaders(loaders);
  };
}

/** Where Mercurius keeps a class with a method for each loader. */
const FACTORY = "mercurius.loadersFactory";

interface Loading {
  readonly schema?: GraphQLSchema;
  defineLoaders?(loaders: Readonly<Record<string, object>>): void;
}

/** None if this version of Mercurius keeps them elsewhere. */
function loaderNamesOf(app: object): string[] {
  for (let holder: object | null = app; holder !== null; holder = Object.getPrototypeOf(holder) as object | null) {
    const symbol = Object.getOwnPropertySymbols(holder).find(({ description }) => description === FACTORY);
    const factory = symbol && (holder as Record<symbol, { readonly Cache?: { readonly prototype?: object } }>)[symbol];
    if (factory?.Cache?.prototype !== undefined)
      return Object.getOwnPropertyNames(factory.Cache.prototype).map((name) => name.replace("-", "."));
  }
  return [];
}
