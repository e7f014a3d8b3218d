import { defaultFieldResolver, type GraphQLField, type GraphQLSchema, isObjectType } from "graphql";

/** Which fields had a resolver when their schema was added: servers may replace all in place. */
export class KnownResolvers {
  readonly #known = new WeakMap<AnyField, AnyField["resolve"]>();
  /** Of the schemas that applyCached has returned. */
  readonly #applied = { coordinates: new Set<string>(), resolvers: new WeakSet<object>() };

  add(schema: GraphQLSchema): void {
    for (const [, field] of fieldsOf(schema)) if (!this.#known.has(field)) this.#known.set(field, field.resolve);
  }

  addApplied(schema: GraphQLSchema): void {
    this.add(schema);
    const { coordinates, resolvers } = this.#applied;
    for (const [coordinate, { resolve }] of fieldsOf(schema)) {
      coordinates.add(coordinate);
      if (resolve !== undefined) resolvers.add(resolve);
    }
  }

  /** Whether a field of a copy of an applied schema has another resolver: it can check rights. */
  isWrapped(coordinate: string, field: AnyField): boolean {
    const resolve = this.#resolverOf(field);
    const { coordinates, resolvers } = this.#applied;
    return resolve !== undefined && coordinates.has(coordinate) && !resolvers.has(resolve);
  }

  /** Unlike for `hasOwnResolver`, one that a cache has wrapped counts. */
  has(field: AnyField): boolean {
    return this.#resolverOf(field) !== undefined;
  }

  #resolverOf(field: AnyField): AnyField["resolve"] {
    const resolve = this.#known.has(field) ? this.#known.get(field) : field.resolve;
    return resolve === defaultFieldResolver ? undefined : resolve;
  }
}

type AnyField = GraphQLField<unknown, unknown>;

function* fieldsOf(schema: GraphQLSchema): Generator<readonly [coordinate: string, AnyField]> {
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isObjectType(type)) continue;
    for (const field of Object.values(type.getFields())) yield [`${type.name}.${field.name}`, field];
  }
}
