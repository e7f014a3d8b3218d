import type { ApolloServerPlugin } from "@apollo/server";
import DataLoader from "dataloader";
import type { GraphQLSchema } from "graphql";
import type { Redis } from "ioredis";
import { type Loaders, loadersOf, type ShopSource, shopSchema } from "./shop.js";

/** What a contender uses. The caller owns the client and the source. */
export interface PageOptions {
  readonly client: Redis;
  readonly prefix: string;
  readonly source: ShopSource;
  /** Returns milliseconds of a clock that stands while the process only waits for the others to be measured. */
  now(): number;
  /** The folder of the build of graphql-cached. Default: that of this checkout. */
  readonly library?: string;
}

/** A server of the shop. */
export interface Shop {
  readonly schema: GraphQLSchema;
  readonly plugins?: readonly ApolloServerPlugin[];
  /** Returns the loaders of a request. */
  loaders(): Loaders;
  /** Resolves once nothing that is cached of an item can be read any more. Default: the schema does it, or nothing does. */
  invalidate?(id: string): Promise<unknown>;
}

/** One way to serve the shop. */
export interface PageContender {
  readonly name: string;
  open(options: PageOptions): Promise<Shop>;
}

/** Loads from the source, in one call per field and request. */
export const dataLoaders = (source: ShopSource): Loaders =>
  loadersOf((name) => new DataLoader((ids: readonly string[]) => source.load(name, ids)));

export const dataLoaderOnly: PageContender = {
  name: "DataLoader only",
  open: async ({ source }) => ({ schema: shopSchema(), loaders: () => dataLoaders(source) }),
};

/** Resolvers that return at once: no source and no cache. Whatever executes the query needs this time. */
export const executionOnly: PageContender = {
  name: "execution only",
  open: async ({ source }) => {
    const loaders = loadersOf((name) => ({ load: (id) => source.valueOf(name, id) }));
    return { schema: shopSchema(), loaders: () => loaders };
  },
};
