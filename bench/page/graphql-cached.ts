import { loadLibrary } from "../library.js";
import { MEMORY, type MemoryName } from "../memory.js";
import { dataLoaders, type PageContender } from "./contender.js";
import { type Directives, ITEM_FIELDS, MAX_AGE_S, shopSchema } from "./shop.js";

interface Variant {
  /** Default: default options. */
  readonly memory?: MemoryName;
  /** Default: yes. Without tags, an item is invalidated by the keys of its fields. */
  readonly hasTags?: boolean;
  /** Default: no. */
  readonly hasResponses?: boolean;
}

const silentLogger = { info: (): void => undefined, warn: (): void => undefined };

/** graphql-cached around the resolvers of "DataLoader only", on Redis. */
function graphqlCached(
  name: string,
  { memory = "byDefault", hasTags = true, hasResponses = false }: Variant = {},
): PageContender {
  const directives: Directives = {
    cached: (tag) =>
      `@cached(maxAge: ${MAX_AGE_S}, scope: PUBLIC${hasTags && tag !== undefined ? `, tags: ["${tag}"]` : ""})`,
    invalidates: hasTags ? `@invalidates(tags: ["Item:{$args.id}"])` : "",
  };
  return {
    name,
    open: async ({ client, prefix, source, library }) => {
      const { applyCached, cachedPlugin, cachedTypeDefs, createCache, redisStore } = await loadLibrary(library);
      const cache = createCache({
        store: redisStore({ client }),
        prefix,
        logger: silentLogger,
        privacy: { sharedContextKeys: ["loaders", "change"] },
        ...MEMORY[memory],
      });
      const invalidateKeys = (id: string): Promise<unknown> =>
        Promise.all(ITEM_FIELDS.map((field) => cache.invalidate({ coordinate: `Item.${field}`, source: { id } })));
      return {
        schema: applyCached(shopSchema(directives, [cachedTypeDefs]), cache),
        plugins: [cachedPlugin(cache, hasResponses ? { responses: { scope: "PUBLIC" } } : {})],
        loaders: () => dataLoaders(source),
        ...(hasTags ? {} : { invalidate: invalidateKeys }),
      };
    },
  };
}

export const cached = graphqlCached("graphql-cached");
export const cachedNoMemory = graphqlCached("graphql-cached, no memory", { memory: "none" });
export const cachedTwoSeconds = graphqlCached("graphql-cached, up to 2 s stale", { memory: "twoSeconds" });
export const cachedUntagged = graphqlCached("graphql-cached, no tags", { hasTags: false });

export const responses = graphqlCached("graphql-cached, responses", { hasResponses: true });
export const responsesNoMemory = graphqlCached("graphql-cached, responses, no memory", {
  memory: "none",
  hasResponses: true,
});
