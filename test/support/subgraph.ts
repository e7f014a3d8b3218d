import { buildSubgraphSchema } from "@apollo/subgraph";
import { type ExecutionResult, type GraphQLSchema, graphql, parse } from "graphql";
import {
  type ApplyCachedOptions,
  applyCached,
  type Cache,
  type CacheEvent,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  memoryStore,
} from "graphql-cached";
import { onTestFinished } from "vitest";

/** A federation subgraph made by `@apollo/subgraph`, with a cache. */
export interface Subgraph {
  readonly cache: Cache;
  readonly schema: GraphQLSchema;
  readonly events: CacheEvent[];
  ask(source: string, variableValues?: Record<string, unknown>, contextValue?: object): Promise<ExecutionResult>;
  /** Asks for entities as a gateway does, and returns them or the messages of the errors. */
  entities(representations: readonly object[], selection: string, contextValue?: object): Promise<unknown>;
}

const LINKS = `
  extend schema
    @link(
      url: "https://specs.apollo.dev/federation/v2.9"
      import: ["@key", "@external", "@requires", "@shareable", "@interfaceObject", "@authenticated", "@composeDirective"]
    )
    @link(url: "https://graphql-cached.dev/cached/v1.0", import: ["@cached"])
    @composeDirective(name: "@cached")
`;

/** The SDL of a subgraph with the directives of federation and of this package. */
export const subgraphTypeDefs = (typeDefs: string): string => `${LINKS}${cachedTypeDefs}${typeDefs}`;

/** Creates a subgraph until the current test has finished. Values do not expire early. */
export function subgraph(
  typeDefs: string,
  resolvers: object,
  options: CacheOptions<never> = {},
  applied: ApplyCachedOptions = {},
): Subgraph {
  const events: CacheEvent[] = [];
  const cache = createCache({
    defaultScope: "PUBLIC",
    ...({
      store: memoryStore(),
      logger: { info: () => undefined, warn: () => undefined },
      onEvent: (event) => events.push(event),
      ...options,
      defaults: { jitter: 0, earlyRefresh: 0, ...options.defaults },
    } as CacheOptions),
  });
  onTestFinished(() => cache.close());
  const schema = applyCached(
    buildSubgraphSchema([{ typeDefs: parse(subgraphTypeDefs(typeDefs)), resolvers: resolvers as never }]),
    cache,
    applied,
  );
  const ask: Subgraph["ask"] = (source, variableValues = {}, contextValue = {}) =>
    graphql({ schema, source, variableValues, contextValue });
  return {
    cache,
    schema,
    events,
    ask,
    entities: async (representations, selection, contextValue) => {
      const source = `query ($representations: [_Any!]!) { _entities(representations: $representations) { ${selection} } }`;
      const { data, errors } = await ask(source, { representations }, contextValue);
      if (errors !== undefined) return errors.map(({ message }) => message);
      return (JSON.parse(JSON.stringify(data)) as { _entities: unknown })._entities;
    },
  };
}
