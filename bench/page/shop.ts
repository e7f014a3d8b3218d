import { makeExecutableSchema } from "@graphql-tools/schema";
import type { GraphQLSchema } from "graphql";
import { CACHE_CONTROL } from "../cache-control.js";
import { pause } from "../instant.js";
import { seededRandom } from "../seeded-random.js";
import { zipf } from "./zipf.js";

/** How long values are fresh, in seconds: longer than any scenario. */
export const MAX_AGE_S = 3_600;
/** The shop has so many categories, and as many items. */
export const IDS = 5_000;
/** The items of a category. */
const ITEMS = 20;
const RECOMMENDATIONS = 6;
/** What each item has that is cached. */
export const ITEM_FIELDS = ["film", "stars", "stock"] as const;
/** The values of items on a page. */
export const ITEM_VALUES = ITEMS * ITEM_FIELDS.length;

const popular = zipf(IDS, seededRandom(1));
/** Popular items are in many categories. Some are in one twice. */
const ITEMS_OF = Array.from({ length: IDS }, () => Array.from({ length: ITEMS }, popular));

/** Returns the items of a category. Categories from `IDS` on have items that no other has. */
export const itemsOf = (category: number): readonly number[] =>
  ITEMS_OF[category] ?? Array.from({ length: ITEMS }, (_, nth) => IDS + (category - IDS) * ITEMS + nth);

const queryOf = ({ category = "", film = "", stock = "" }): string => /* GraphQL */ `
  query ($id: ID!) {
    category(id: $id) {
      id name ${category}
      items { id film { id title version ${film} } stars { average count version } stock { available version ${stock} } }
    }
    recommendations(id: $id) { id title }
  }
`;
export const QUERY = queryOf({});
/** Queries that differ from the first in one field, as those of other clients do. */
export const OTHER_QUERIES: readonly string[] = [
  queryOf({ stock: "warehouse" }),
  queryOf({ category: "text" }),
  queryOf({ film: "year" }),
  queryOf({ film: "text" }),
];
export const MUTATION = /* GraphQL */ `mutation ($id: ID!) { change(id: $id) }`;

/** Directives of the fields of the shop. */
export interface Directives {
  /** Returns the directive of a cached field, of which all values have the tag. */
  cached(tag?: string): string;
  /** Of the mutation. */
  readonly invalidates: string;
}

const NO_DIRECTIVES: Directives = { cached: () => "", invalidates: "" };
/** The hints of an Apollo server, which all contenders have. */
const HINT = `@cacheControl(maxAge: ${MAX_AGE_S})`;

function typeDefsOf({ cached, invalidates }: Directives): string {
  const ofItem = `${cached("Item:{$source.id}")} ${HINT}`;
  return `
    type Query {
      category(id: ID!): Category ${cached("Category:{$args.id}")} ${HINT}
      recommendations(id: ID!): [Recommendation!]! ${cached()} ${HINT}
    }
    type Mutation { change(id: ID!): Int! ${invalidates} }
    type Category ${HINT} { id: ID! name: String! text: String! items: [Item!]! ${HINT} }
    type Item ${HINT} { id: ID! film: Film! ${ofItem} stars: Stars! ${ofItem} stock: Stock! ${ofItem} }
    type Film ${HINT} { id: ID! title: String! year: Int! text: String! version: Int! }
    type Stars ${HINT} { average: Float! count: Int! version: Int! }
    type Stock ${HINT} { available: Int! warehouse: String! version: Int! }
    type Recommendation ${HINT} { id: ID! title: String! score: Float! }
  `;
}

/** The cached fields. The values of those of items contain the version of the item. */
export type FieldName = "category" | "recommendations" | (typeof ITEM_FIELDS)[number];

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

/** The context of a request: how its resolvers load, and how its mutation changes. */
export interface ShopContext {
  readonly loaders: Loaders;
  /** Changes an item. Resolves to its new version. */
  change(id: string): Promise<number>;
}

/** Returns the schema of the shop. `typeDefs` defines its directives. */
export function shopSchema(directives = NO_DIRECTIVES, typeDefs: readonly string[] = []): GraphQLSchema {
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
    typeDefs: [...typeDefs, CACHE_CONTROL, typeDefsOf(directives)],
    resolvers: {
      Query: { category: ofArgs("category"), recommendations: ofArgs("recommendations") },
      Mutation: { change: (_: unknown, { id }: Args, context: ShopContext) => context.change(id) },
      Category: {
        items: ({ itemIds }: { readonly itemIds: readonly string[] }): Args[] => itemIds.map((id) => ({ id })),
      },
      Item: { film: ofItem("film"), stars: ofItem("stars"), stock: ofItem("stock") },
    },
  });
}

/** Calls of the source that run at the same time. More wait. */
const MAX_CALLS = 20;

/** The database of the shop, in this process, with the version of each item. */
export class ShopSource {
  /** How long a call takes. */
  callMs = 0;
  /** How many calls there were, and the keys that they have loaded. */
  calls = 0;
  keys = 0;
  readonly #versions: Int32Array;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** `firstVersion`: that of all items. */
  constructor(firstVersion: number) {
    this.#versions = new Int32Array(IDS).fill(firstVersion);
  }

  /** Returns the current value of a field, at once. */
  valueOf(name: FieldName, id: string): unknown {
    const number = Number(id);
    return VALUES[name](number, this.#versions[number] ?? 0);
  }

  /** Loads values of one field in one call. A value is that of the moment at which the database gets the call. */
  load(name: FieldName, ids: readonly string[]): Promise<unknown[]> {
    this.keys += ids.length;
    return this.#call(() => ids.map((id) => this.valueOf(name, id)));
  }

  /** Changes an item. Resolves to its new version, which is there when the call ends: loads under way return the old one. */
  async change(id: string): Promise<number> {
    await this.#call(() => undefined);
    const version = (this.#versions[Number(id)] ?? 0) + 1;
    this.#versions[Number(id)] = version;
    return version;
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

const TEXT = "A short text of a product that a shop would show on a page of its catalogue, with some words more. ";

/** The values of each field. `version` is that of the item. */
const VALUES: Readonly<Record<FieldName, (number: number, version: number) => unknown>> = {
  category: (number) => ({
    id: String(number),
    name: `Category ${number}`,
    text: `${TEXT}${TEXT}${number}`,
    itemIds: itemsOf(number).map(String),
  }),
  recommendations: (number) =>
    itemsOf((number * 31) % IDS)
      .slice(0, RECOMMENDATIONS)
      .map((item) => ({ id: `r${item}`, title: `Recommended product ${item}`, score: item / IDS })),
  film: (number, version) => ({
    id: String(number),
    title: `Product ${number}`,
    year: 2000 + (number % 25),
    text: `${TEXT}${number}`,
    version,
  }),
  stars: (number, version) => ({ id: String(number), average: (number % 50) / 10, count: number, version }),
  stock: (number, version) => ({ id: String(number), available: number % 7, warehouse: `W${number % 9}`, version }),
};

/** What a response contains of a category. */
export interface PageOfCategory {
  readonly items: readonly Readonly<Record<(typeof ITEM_FIELDS)[number], { readonly version: number }>>[];
}

/** Returns how many values of a page are older than the versions of its items. */
export function countStale({ items }: PageOfCategory, versions: readonly number[]): number {
  let stale = 0;
  for (const [nth, item] of items.entries())
    for (const field of ITEM_FIELDS) if (item[field].version < (versions[nth] ?? 0)) stale++;
  return stale;
}
