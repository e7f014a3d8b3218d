import { makeExecutableSchema } from "@graphql-tools/schema";
import type { GraphQLSchema } from "graphql";
import { pause } from "../instant.js";

/** The categories of the shop, and its items, have as many ids each. */
export const IDS = 5_000;
/** The items of a category. Each is in twenty of them. */
export const ITEMS = 20;
/** Returns the id of the first item of a category. The others follow. */
export const firstItemOf = (category: number): number => (category * ITEMS) % IDS;
const RECOMMENDATIONS = 10;

const queryOf = (field: string): string => /* GraphQL */ `
  query ($id: ID!) {
    category(id: $id) { id name items { id film { title ${field} version } stars stock } }
    recommendations(id: $id) { id title }
  }
`;
/** Two queries that differ in one field of the films, as those of two clients. */
export const QUERIES = [queryOf("year"), queryOf("rating")] as const;
export const MUTATION = /* GraphQL */ `mutation ($id: ID!) { sell(id: $id) { id version } }`;

/** Directives of the fields of the shop. Default: none. */
export interface Directives {
  readonly category?: string;
  readonly recommendations?: string;
  /** Of the list of items, which comes with its category. */
  readonly items?: string;
  /** Of each of the three cached fields of an item. */
  readonly item?: string;
}

const typeDefsOf = ({ category = "", recommendations = "", items = "", item = "" }: Directives): string => `
  type Query {
    category(id: ID!): Category ${category}
    recommendations(id: ID!): [Recommendation!]! ${recommendations}
  }
  type Mutation { sell(id: ID!): Sale! }
  type Category { id: ID! name: String! items: [Item!]! ${items} }
  type Item { id: ID! price: Int! film: Film ${item} stars: Float ${item} stock: Int ${item} }
  type Film { title: String! year: Int! rating: Float! version: Int! }
  type Recommendation { id: ID! title: String! }
  type Sale { id: ID! version: Int! }
`;

/** The cached fields. The values of those of items contain the version of the item. */
export type FieldName = "category" | "recommendations" | "film" | "stars" | "stock";

/** How a request loads each field. */
export type Loaders = Readonly<Record<FieldName, { load(id: string): unknown }>>;

/** Returns the loaders of all fields. */
export const loadersOf = (loaderOf: (name: FieldName) => { load(id: string): unknown }): Loaders => ({
  category: loaderOf("category"),
  recommendations: loaderOf("recommendations"),
  film: loaderOf("film"),
  stars: loaderOf("stars"),
  stock: loaderOf("stock"),
});

/** The context of a request: how its resolvers load, and how its mutation invalidates. */
export interface ShopContext {
  readonly loaders: Loaders;
  /** Changes an item and invalidates what is cached of it. Resolves to its new version. */
  sell(id: string): Promise<number>;
}

/** Returns the schema of the shop with some directives, which `typeDefs` defines. */
export function shopSchema(directives: Directives, typeDefs: readonly string[] = []): GraphQLSchema {
  type Args = { readonly id: string };
  const ofArgs =
    (name: FieldName) =>
    (_: unknown, args: Args, { loaders }: ShopContext) =>
      loaders[name].load(args.id);
  const ofItem =
    (name: FieldName) =>
    (item: Args, _: unknown, { loaders }: ShopContext) =>
      loaders[name].load(item.id);
  return makeExecutableSchema({
    typeDefs: [...typeDefs, typeDefsOf(directives)],
    resolvers: {
      Query: { category: ofArgs("category"), recommendations: ofArgs("recommendations") },
      Mutation: {
        sell: async (_: unknown, { id }: Args, context: ShopContext) => ({ id, version: await context.sell(id) }),
      },
      Item: {
        film: ofItem("film"),
        stars: ofItem("stars"),
        stock: ofItem("stock"),
      },
    },
  });
}

/** Calls of the source that run at the same time. More wait. */
const MAX_CALLS = 20;

/** The database of the shop, in this process, with the version of each item. */
export class ShopSource {
  /** How long a call takes. */
  callMs = 0;
  /** How many calls there were. */
  calls = 0;
  readonly #versions = new Int32Array(IDS);
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** Returns the current value of a field, at once. */
  valueOf(name: FieldName, id: string): unknown {
    const number = Number(id);
    return VALUES[name](number, this.#versions[number] ?? 0);
  }

  /** Loads values of one field in one call. A value is that of the moment at which the database gets the call. */
  load(name: FieldName, ids: readonly string[]): Promise<unknown[]> {
    return this.#call(() => ids.map((id) => this.valueOf(name, id)));
  }

  /** Changes an item. Resolves to its new version. */
  sell(id: string): Promise<number> {
    return this.#call(() => {
      const version = (this.#versions[Number(id)] ?? 0) + 1;
      this.#versions[Number(id)] = version;
      return version;
    });
  }

  async #call<Result>(work: () => Result): Promise<Result> {
    if (this.#running >= MAX_CALLS) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    this.calls++;
    const result = work();
    await pause(this.callMs);
    // The slot goes to the call that has waited longest.
    const next = this.#waiting.shift();
    if (next === undefined) this.#running--;
    else next();
    return result;
  }
}

/** The values of each field. `version` is that of the item. */
const VALUES: Readonly<Record<FieldName, (number: number, version: number) => unknown>> = {
  category: (number) => ({
    id: String(number),
    name: `Category number ${number}`,
    items: Array.from({ length: ITEMS }, (_, nth) => ({ id: String(firstItemOf(number) + nth), price: 500 + nth })),
  }),
  recommendations: (number) =>
    Array.from({ length: RECOMMENDATIONS }, (_, nth) => ({
      id: String(number + nth),
      title: `Recommended film ${number + nth}`,
    })),
  film: (number, version) => ({
    title: `Film number ${number}`,
    year: 1950 + (number % 70),
    rating: (number % 100) / 10,
    plot: "Somebody who has lost something sets out to find it, and finds something else. ".repeat(2),
    version,
  }),
  stars: (number, version) => version + (number % 10) / 10,
  stock: (_, version) => version,
};

/** Returns how many values of a page are older than the versions of its items. */
export function countStale(category: PageOfCategory, versions: Int32Array): number {
  let stale = 0;
  for (const [nth, { film, stars, stock }] of category.items.entries()) {
    const version = versions[nth] ?? 0;
    if ((film?.version ?? 0) < version) stale++;
    if (Math.floor(stars ?? 0) < version) stale++;
    if ((stock ?? 0) < version) stale++;
  }
  return stale;
}

/** What a response contains of a category. */
export interface PageOfCategory {
  readonly items: readonly {
    readonly film: { readonly version: number } | null;
    readonly stars: number | null;
    readonly stock: number | null;
  }[];
}
