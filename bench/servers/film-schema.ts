import { makeExecutableSchema } from "@graphql-tools/schema";
import type { GraphQLSchema } from "graphql";
import { cachedTypeDefs } from "../../src/index.js";
import { type Film, FilmMaker } from "../source.js";

/** How many ids a server has. Near caches hold all of them. */
export const NEAR_IDS = 8_000;
/** More ids than a memo of keys holds. */
export const REDIS_IDS = 20_000;
/** How many cached fields a query has. */
export const FIELDS = 100;

export const QUERY = /* GraphQL */ `
  query ($from: Int!, $ids: Int!) { page(from: $from, ids: $ids) { film { id title year rating } } }
`;

/** The hints are those that Apollo's response cache needs. They are not used as policies of @cached. */
const TYPES = /* GraphQL */ `
  enum CacheControlScope { PUBLIC PRIVATE }
  directive @cacheControl(
    maxAge: Int
    scope: CacheControlScope
    inheritMaxAge: Boolean
  ) on FIELD_DEFINITION | OBJECT | INTERFACE | UNION
  type Query { page(from: Int!, ids: Int!): [Item!]! @cacheControl(maxAge: 600) }
  type Item { id: ID! film: Film @cached(maxAge: 600) @cacheControl(maxAge: 600) }
  type Film { id: ID! title: String! year: Int! rating: Float! }
`;

/** An object of the page, whose film is cached. */
export interface Item {
  readonly id: string;
}

/** Returns the film of an item, or a promise of it. */
export type ResolveFilm = (item: Item, context: never, args: object) => Film | Promise<Film | null | undefined>;

const items = Array.from({ length: REDIS_IDS }, (_, id): Item => ({ id: `film-${id}` }));

/** Returns the schema of a page of a hundred items, each with one field that is cached. */
export function filmSchema(resolveFilm: ResolveFilm): GraphQLSchema {
  const page = (_: unknown, { from, ids }: { from: number; ids: number }): Item[] =>
    Array.from({ length: FIELDS }, (_unused, nth) => items[(from + nth) % ids] as Item);
  return makeExecutableSchema({
    typeDefs: [cachedTypeDefs, TYPES],
    resolvers: {
      Query: { page },
      Item: { film: (item: Item, args: object, context: never) => resolveFilm(item, context, args) },
    },
  });
}

/** The source of a server: films in memory behind a promise, so that a load costs as little as possible. Counts loads. */
export class FilmSource {
  loads = 0;
  readonly #maker = new FilmMaker();
  readonly #films = new Map<string, Film>();

  async load(id: string): Promise<Film> {
    this.loads++;
    let film = this.#films.get(id);
    if (film === undefined) {
      film = this.#maker.make(id, 0);
      this.#films.set(id, film);
    }
    return film;
  }
}
