import { types } from "node:util";
import type { GraphQLIsTypeOfFn, GraphQLResolveInfo } from "graphql";
import { isError } from "../../base/built-in.js";
import { ignoreRejection } from "../../base/deferred.js";
import type { KeyFormOf } from "../../keys/canonical.js";
import { entityTag, typeTag } from "../../keys/key.js";
import { tagText } from "../../keys/tag-template.js";
import type { EntityCall, Obstacle } from "../../schema-rules.js";

/** The maximum number of entity tags of a value, unless it has entities of more types than that. */
export const MAX_ENTITY_TAGS = 100;

/** What the walk needs to know of an object type. */
export interface ObjectPlan {
  readonly typeName: string;
  /** The fields that identify values of the type, which have no resolver. Undefined if the values are no entities. */
  readonly idFields: readonly string[] | undefined;
  /** The fields without a resolver that lead to entities. */
  readonly members: readonly MemberPlan[];
}

export interface MemberPlan {
  readonly fieldName: string;
  readonly place: Place;
}

/** What the walk needs to know of an interface or union. Types that lead to no entity have no plan. */
export interface AbstractPlan {
  readonly possible: ReadonlyMap<string, ObjectPlan | undefined>;
  readonly testable: readonly { readonly isTypeOf: IsTypeOf; readonly plan: ObjectPlan | undefined }[];
}

export type IsTypeOf = GraphQLIsTypeOfFn<unknown, unknown>;

/** Where values are found, with what the schema says of them. */
export interface Place {
  readonly coordinate: string;
  readonly isList: boolean;
  readonly plan: ObjectPlan | AbstractPlan;
}

/** A promise in a value, which the walk does not wait for. */
export interface PendingValue {
  readonly promise: Promise<unknown>;
  readonly place: Place;
}

/**
 * Finds the entities in one value. It goes through the fields without a resolver, which read
 * their property as GraphQL does, and visits each object once for each type that it has, so values
 * can contain themselves. It does not recurse, so they can be deep.
 */
export class EntityWalk {
  /** By type. */
  readonly ids = new Map<string, Set<string>>();
  /** The promises that were found and not yet taken. */
  readonly pending: PendingValue[] = [];
  /** What the walk could not look into, by coordinate. */
  readonly obstacles = new Map<string, Obstacle>();
  /** Whether there were methods in the place of values, which GraphQL calls, or objects whose type is not known. */
  hasUnknown = false;
  readonly #call: EntityCall;
  readonly #keyFormOf: KeyFormOf;
  readonly #maxIdsPerType: number;
  readonly #visited = new Map<ObjectPlan, Set<object>>();
  /** The objects to be visited, and where they were found. */
  readonly #objects: object[] = [];
  readonly #places: Place[] = [];

  constructor(call: EntityCall, keyFormOf: KeyFormOf, maxIdsPerType = Number.POSITIVE_INFINITY) {
    this.#call = call;
    this.#keyFormOf = keyFormOf;
    this.#maxIdsPerType = maxIdsPerType;
  }

  /** Finds the entities in `value`. */
  add(value: unknown, place: Place): void {
    this.#push(value, place);
    for (let object = this.#objects.pop(); object !== undefined; object = this.#objects.pop())
      this.#visit(object, this.#places.pop() as Place);
  }

  #push(value: unknown, place: Place): void {
    if (typeof value !== "object" || value === null) return;
    this.#objects.push(value);
    this.#places.push(place);
  }

  #visit(value: object, place: Place): void {
    if (Array.isArray(value)) {
      this.#pushItems(value, place);
      return;
    }
    // GraphQL reports it as the error of its field.
    if (isError(value)) return;
    if (types.isPromise(value)) {
      this.pending.push({ promise: value, place });
      return;
    }
    if (typeof (value as { then?: unknown }).then === "function") {
      // To call `then` could run the query that it stands for.
      this.obstacles.set(place.coordinate, { kind: "an object with a method `then`, which is not a Promise" });
      return;
    }
    if (place.isList) this.#visitItems(value, place);
    else this.#visitObject(value as Readonly<Record<string, unknown>>, place);
  }

  #pushItems(items: Iterable<unknown>, place: Place): void {
    const placeOfItem = place.isList ? { ...place, isList: false } : place;
    for (const item of items) this.#push(item, placeOfItem);
  }

  /** Visits the items of a list that is not an array. */
  #visitItems(list: Partial<Iterable<unknown> & AsyncIterable<unknown>>, place: Place): void {
    const iterator: unknown = list[Symbol.iterator]?.();
    if (iterator !== undefined && iterator !== list) this.#pushItems(list as Iterable<unknown>, place);
    // GraphQL reports other values as the error of their field.
    else if (iterator === list || Symbol.asyncIterator in list)
      this.obstacles.set(place.coordinate, { kind: "a list that can be read once only" });
  }

  #visitObject(object: Readonly<Record<string, unknown>>, { coordinate, plan: declared }: Place): void {
    const plan = "possible" in declared ? this.#typeOf(object, declared) : declared;
    if (plan === undefined) return;
    let visited = this.#visited.get(plan);
    if (visited === undefined) {
      visited = new Set();
      this.#visited.set(plan, visited);
    }
    if (visited.has(object)) return;
    visited.add(object);
    if (plan.idFields !== undefined) this.#addEntity(object, plan.typeName, plan.idFields, coordinate);
    for (const { fieldName, place } of plan.members) this.#visitMember(object, fieldName, place);
  }

  #visitMember(object: Readonly<Record<string, unknown>>, fieldName: string, place: Place): void {
    let value: unknown;
    try {
      value = object[fieldName];
    } catch (error) {
      this.obstacles.set(place.coordinate, { kind: "an error", error });
      return;
    }
    if (typeof value === "function") this.hasUnknown = true;
    // A getter that returns a promise may have begun a query, as lazy relations do, and those of its
    // result would begin others.
    if (types.isPromise(value) && Object.getOwnPropertyDescriptor(object, fieldName)?.value !== value) {
      value.catch(() => undefined);
      this.obstacles.set(place.coordinate, { kind: "a promise of a getter" });
    } else this.#push(value, place);
  }

  #addEntity(
    object: Readonly<Record<string, unknown>>,
    typeName: string,
    idFields: readonly string[],
    coordinate: string,
  ): void {
    let ids = this.ids.get(typeName);
    if (ids === undefined) {
      ids = new Set();
      this.ids.set(typeName, ids);
    }
    if (ids.size >= this.#maxIdsPerType) return;
    try {
      const texts = idFields.map((name) => tagText(object[name], true, this.#keyFormOf));
      if (!texts.includes(undefined)) ids.add(texts.join(":"));
    } catch (error) {
      this.obstacles.set(coordinate, { kind: "an error", error });
    }
  }

  /** Returns the plan of the type of an object. Undefined if the type is not known, or leads to no entity. */
  #typeOf(object: Readonly<Record<string, unknown>>, { possible, testable }: AbstractPlan): ObjectPlan | undefined {
    try {
      const name = object.__typename;
      if (typeof name === "string" && possible.has(name)) return possible.get(name);
      const { context, info } = this.#call;
      for (const { isTypeOf, plan } of testable) {
        const isOne: unknown = isTypeOf(object, context, info as GraphQLResolveInfo);
        if (isOne === true) return plan;
        ignoreRejection(isOne);
      }
    } catch {
      // GraphQL reports it as the error of its field.
    }
    this.hasUnknown = true;
    return undefined;
  }
}

/** Returns the tags of all entities. */
export function tagsOfEntities(ids: EntityWalk["ids"]): string[] {
  return [...ids].flatMap(([typeName, some]) => [...some].map((id) => entityTag(typeName, id)));
}

/**
 * Returns the tags of a value with these entities. Beyond the limit, the types with the most
 * entities have one tag each.
 */
export function tagsOfValue(ids: EntityWalk["ids"]): string[] {
  let count = 0;
  for (const { size } of ids.values()) count += size;
  if (count <= MAX_ENTITY_TAGS) return tagsOfEntities(ids);
  const kept = new Map(ids);
  const tags: string[] = [];
  for (const [typeName, { size }] of [...ids].sort(([, one], [, other]) => other.size - one.size)) {
    if (count <= MAX_ENTITY_TAGS || size <= 1) break;
    kept.delete(typeName);
    tags.push(typeTag(typeName));
    count -= size - 1;
  }
  return [...tags, ...tagsOfEntities(kept)];
}
