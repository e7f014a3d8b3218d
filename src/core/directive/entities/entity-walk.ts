import { types } from "node:util";
import type { GraphQLIsTypeOfFn, GraphQLResolveInfo } from "graphql";
import { isError } from "../../base/built-in.js";
import { type Clock, within } from "../../base/clock.js";
import { ignoreRejection } from "../../base/deferred.js";
import { getOrMake } from "../../base/multimap.js";
import { isRounded, type KeyFormOf } from "../../keys/canonical.js";
import { entityTag, typeTag } from "../../keys/key.js";
import { tagText } from "../../keys/tag-template.js";
import type { CacheParts } from "../../parts.js";
import type { EntityCall, EntityFinder, Obstacle, ReportObstacle } from "../../schema-rules.js";

/** Returns what finds the entities in values at a place. `reportUntagged` gets what has no tag. */
export function entityFinder(
  place: Place,
  typeNames: () => ReadonlySet<string>,
  { keys, clock }: Pick<CacheParts, "keys" | "clock">,
  reportUntagged: ReportObstacle,
): EntityFinder {
  const walkThrough = (value: unknown, call: EntityCall, maxIdsPerType = MAX_ENTITY_TAGS + 1): EntityWalk => {
    const walk = new EntityWalk(call, keys.keyFormOf, maxIdsPerType);
    walk.add(value, place);
    return walk;
  };
  return {
    get typeNames() {
      return typeNames();
    },
    tagsIn(value, call) {
      const { ids, rounded, obstacles, withoutId } = walkThrough(value, call);
      for (const one of [...obstacles, ...withoutId]) reportUntagged(...one);
      return [...tagsOfValue(ids), ...[...rounded].map(typeTag)];
    },
    partsIn(value, call) {
      const { obstacles, withoutId, pending, ids, rounded } = walkThrough(value, call);
      for (const { promise } of pending) ignoreRejection(promise);
      for (const one of withoutId) reportUntagged(...one);
      return obstacles.size === 0 && pending.length === 0 && rounded.size === 0 ? tagsOfValue(ids) : undefined;
    },
    async changedIn(value, call, report) {
      const walk = walkThrough(value, call, Number.POSITIVE_INFINITY);
      await settle(walk, clock);
      for (const one of [...walk.obstacles, ...walk.withoutId]) report(...one);
      // The name of a type invalidates all of its entities.
      return [...tagsOfEntities(walk.ids), ...walk.rounded];
    },
  };
}

/** Waits for the promises in a value, and for those in what they resolve to. */
async function settle(walk: EntityWalk, clock: Clock): Promise<void> {
  const giveUpAt = clock.now() + MAX_WAIT_MS;
  for (let found = walk.pending.splice(0); found.length > 0; found = walk.pending.splice(0)) {
    const settling = found.map(({ promise, place }) =>
      promise.then(
        (value) => walk.add(value, place),
        // GraphQL reports it as the error of its field.
        () => undefined,
      ),
    );
    const ms = giveUpAt - clock.now();
    const isOver = await within(clock, Promise.all(settling), { ms, otherwise: () => undefined });
    if (isOver !== undefined) continue;
    for (const { place } of found)
      walk.obstacles.set(place.coordinate, { kind: `a promise that was pending for ${MAX_WAIT_MS} ms` });
    return;
  }
}

/** The maximum number of entity tags of a value, unless it has entities of more types than that. */
const MAX_ENTITY_TAGS = 100;
/** How long a mutation waits for promises in its result, as GraphQL does for selected fields. */
const MAX_WAIT_MS = 10_000;

export interface ObjectPlan {
  readonly typeName: string;
  /** The fields that identify its values, which have no resolver. Undefined: no entities. */
  readonly idFields: readonly string[] | undefined;
  readonly members: readonly { readonly fieldName: string; readonly place: Place }[];
}

/** What the walk knows of an interface or union. Types that lead to no entity have no plan. */
export interface AbstractPlan {
  readonly possible: ReadonlyMap<string, ObjectPlan | undefined>;
  readonly testable: readonly { readonly isTypeOf: IsTypeOf; readonly plan: ObjectPlan | undefined }[];
}

export type IsTypeOf = GraphQLIsTypeOfFn<unknown, unknown>;

export interface Place {
  readonly coordinate: string;
  readonly isList: boolean;
  readonly plan: ObjectPlan | AbstractPlan;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Finds the entities in one value. It goes through the fields without a resolver, which read their
 * property as GraphQL does, and visits each object once for each type that it has, so values can
 * contain themselves. It does not recurse, so they can be deep.
 */
class EntityWalk {
  readonly ids = new Map<string, Set<string>>();
  /** The types of entities that are not known, since their ids are numbers that may be rounded. */
  readonly rounded = new Set<string>();
  readonly pending: { readonly promise: Promise<unknown>; readonly place: Place }[] = [];
  /** What the walk could not look into, by coordinate. */
  readonly obstacles = new Map<string, Obstacle>();
  /** Where there were objects of an entity type that nothing identifies. */
  readonly withoutId = new Map<string, Obstacle>();
  readonly #visited = new Map<ObjectPlan, Set<object>>();
  readonly #toVisit: { readonly value: object; readonly place: Place }[] = [];

  constructor(
    private readonly call: EntityCall,
    private readonly keyFormOf: KeyFormOf,
    private readonly maxIdsPerType: number,
  ) {}

  add(value: unknown, place: Place): void {
    this.#push(value, place);
    for (let next = this.#toVisit.pop(); next !== undefined; next = this.#toVisit.pop()) {
      const { value: found, place: at } = next;
      this.#orObstacle(at.coordinate, () => this.#visitValue(found, at));
    }
  }

  #push(value: unknown, place: Place): void {
    if (typeof value === "object" && value !== null) this.#toVisit.push({ value, place });
    // GraphQL calls it, or reads its properties.
    else if (typeof value === "function") this.obstacles.set(place.coordinate, { kind: "a method" });
  }

  #pushItems(items: Iterable<unknown>, place: Place): void {
    const placeOfItem = place.isList ? { ...place, isList: false } : place;
    for (const item of items) this.#push(item, placeOfItem);
  }

  /** An accessor or iterator can throw, which must not hide the other entities. */
  #orObstacle(coordinate: string, look: () => void): void {
    try {
      look();
    } catch (error) {
      this.obstacles.set(coordinate, { kind: "an error", error });
    }
  }

  #visitValue(value: object, place: Place): void {
    if (Array.isArray(value)) this.#pushItems(value, place);
    // GraphQL reports it as the error of its field.
    else if (isError(value)) return;
    else if (types.isPromise(value)) this.pending.push({ promise: value, place });
    // To call `then` could run the query that it stands for.
    else if (typeof (value as { then?: unknown }).then === "function")
      this.obstacles.set(place.coordinate, { kind: "an object with a method `then`, which is not a Promise" });
    else if (place.isList) this.#visitItems(value, place);
    else this.#visitObject(value as Fields, place);
  }

  #visitItems(list: Partial<Iterable<unknown> & AsyncIterable<unknown>>, place: Place): void {
    const iterator: unknown = list[Symbol.iterator]?.();
    if (iterator !== undefined && iterator !== list) this.#pushItems(list as Iterable<unknown>, place);
    // GraphQL reports other values as the error of their field.
    else if (iterator === list || Symbol.asyncIterator in list)
      this.obstacles.set(place.coordinate, { kind: "a list that can be read once only" });
  }

  #visitObject(object: Fields, { coordinate, plan: declared }: Place): void {
    const plan = "possible" in declared ? this.#typeOf(object, coordinate, declared) : declared;
    if (plan === undefined || !addTo(this.#visited, plan, object)) return;
    const { idFields, typeName } = plan;
    if (idFields !== undefined)
      this.#orObstacle(coordinate, () => this.#addEntity(object, typeName, idFields, coordinate));
    for (const { fieldName, place } of plan.members)
      this.#orObstacle(place.coordinate, () => this.#visitMember(object, fieldName, place));
  }

  #visitMember(object: Fields, fieldName: string, place: Place): void {
    const value = object[fieldName];
    // A getter may begin a query, as lazy relations do, and those of its result others.
    if (types.isPromise(value) && Object.getOwnPropertyDescriptor(object, fieldName)?.value !== value) {
      ignoreRejection(value);
      this.obstacles.set(place.coordinate, { kind: "a promise of a getter" });
    } else this.#push(value, place);
  }

  #addEntity(object: Fields, typeName: string, idFields: readonly string[], coordinate: string): void {
    if ((this.ids.get(typeName)?.size ?? 0) >= this.maxIdsPerType) return;
    if (idFields.some((name) => isRounded(object[name]))) {
      this.rounded.add(typeName);
      return;
    }
    const texts = idFields.map((name) => tagText(object[name], true, this.keyFormOf));
    if (!texts.includes(undefined)) addTo(this.ids, typeName, texts.join(":"));
    else this.withoutId.set(coordinate, { kind: `an object without \`${idFields.join("` and `")}\`` });
  }

  #typeOf(object: Fields, coordinate: string, { possible, testable }: AbstractPlan): ObjectPlan | undefined {
    try {
      const name = object.__typename;
      if (typeof name === "string" && possible.has(name)) return possible.get(name);
      const { context, info } = this.call;
      for (const { isTypeOf, plan } of testable) {
        const isOne: unknown = isTypeOf(object, context, info as GraphQLResolveInfo);
        if (isOne === true) return plan;
        ignoreRejection(isOne);
      }
    } catch {
      // GraphQL reports it as the error of its field.
    }
    this.obstacles.set(coordinate, { kind: "an object without `__typename`, whose type is not known" });
    return undefined;
  }
}

/** Returns whether it was not there. */
function addTo<Key, Member>(sets: Map<Key, Set<Member>>, key: Key, member: Member): boolean {
  const set = getOrMake(sets, key, () => new Set());
  return set.size < set.add(member).size;
}

const tagsOfEntities = (ids: ReadonlyMap<string, ReadonlySet<string>>): string[] =>
  [...ids].flatMap(([typeName, some]) => [...some].map((id) => entityTag(typeName, id)));

/** Returns the tags of entities by type. Beyond the limit, the largest types have one tag each. */
function tagsOfValue(ids: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  let count = [...ids.values()].reduce((sum, { size }) => sum + size, 0);
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
