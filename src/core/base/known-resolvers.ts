import { defaultFieldResolver, type GraphQLField, type GraphQLSchema, isObjectType } from "graphql";

/**
 * Which fields had a resolver when their schema was added: servers such as Apollo Server replace
 * those of all fields later, in place.
 */
export class KnownResolvers {
  readonly #known = new WeakMap<AnyField, { readonly has: boolean; readonly resolve: AnyField["resolve"] }>();
  /**
   * The coordinates of the schemas that applyCached has returned, and the resolvers of their
   * fields.
   */
  readonly #applied = { coordinates: new Set<string>(), resolvers: new WeakSet<object>() };

  add(schema: GraphQLSchema): void {
    for (const [, field] of fieldsOf(schema))
      if (!this.#known.has(field)) this.#known.set(field, { has: hasResolver(field), resolve: field.resolve });
  }

  addApplied(schema: GraphQLSchema): void {
    this.add(schema);
    const { coordinates, resolvers } = this.#applied;
    for (const [coordinate, { resolve }] of fieldsOf(schema)) {
      coordinates.add(coordinate);
      if (resolve !== undefined) resolvers.add(resolve);
    }
  }

  /**
   * Whether a field of a copy of an applied schema has another resolver than there, which can check
   * permissions.
   */
  isWrapped(coordinate: string, field: AnyField): boolean {
    const { resolve } = this.#known.get(field) ?? field;
    if (resolve === undefined || resolve === defaultFieldResolver) return false;
    return this.#applied.coordinates.has(coordinate) && !this.#applied.resolvers.has(resolve);
  }

  has(field: AnyField): boolean {
    return this.#known.get(field)?.has ?? hasResolver(field);
  }
}

type AnyField = GraphQLField<unknown, unknown>;

function* fieldsOf(schema: GraphQLSchema): Generator<readonly [coordinate: string, AnyField]> {
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isObjectType(type)) continue;
    for (const field of Object.values(type.getFields())) yield [`${type.name}.${field.name}`, field];
  }
}

/**
 * Unlike for `hasOwnResolver`, every function but the default resolver counts, such as one that a
 * cache has wrapped.
 */
const hasResolver = ({ resolve }: AnyField): boolean => resolve !== undefined && resolve !== defaultFieldResolver;
