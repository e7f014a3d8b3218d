import { makeExecutableSchema } from "@graphql-tools/schema";
import type { GraphQLSchema } from "graphql";
import { cachedTypeDefs } from "../../src/index.js";
import { CACHE_CONTROL } from "../cache-control.js";
import { type Film, filmOf } from "../loaders/source.js";

/** How many ids a server has. Near caches hold all of them. */
export const IDS = 8_000;
/** How many cached fields a query has. */
export const FIELDS = 100;

export const QUERY = /* GraphQL */ `query ($from: Int!) { page(from: $from) { film { id title year rating } } }`;

/** The hints are those that Apollo's response cache needs. They are not used as policies of @cached. */
const TYPES = /* GraphQL */ `
  type Query { page(from: Int!): [Item!]! @cacheControl(maxAge: 600) }
  type Item { id: ID! film: Film @cached(maxAge: 600) @cacheControl(maxAge: 600) }
  type Film { id: ID! title: String! year: Int! rating: Float! }
`;

/** An object of the page, whose film is cached. */
export interface Item {
  readonly id: string;
}

const items = Array.from({ length: IDS }, (_, id): Item => ({ id: `film-${id}` }));

/** Returns the schema of pages of a hundred items, each with one field that is cached. */
export function filmSchema(resolveFilm: (item: Item, context: never) => Promise<Film>): GraphQLSchema {
  const page = (_: unknown, { from }: { from: number }): Item[] =>
    Array.from({ length: FIELDS }, (_unused, nth) => items[(from + nth) % IDS] as Item);
  return makeExecutableSchema({
    typeDefs: [cachedTypeDefs, CACHE_CONTROL, TYPES],
    resolvers: {
      Query: { page },
      Item: { film: (item: Item, _: object, context: never) => resolveFilm(item, context) },
    },
  });
}

/** The source of a server: films in memory behind a promise, so that a load costs as little as possible. Counts loads. */
export class FilmSource {
  loads = 0;
  readonly #films = new Map(items.map(({ id }) => [id, filmOf(id, 0)]));

  async load(id: string): Promise<Film> {
    this.loads++;
    return this.#films.get(id) as Film;
  }
}
