import type { Key, KeySpace, Subject } from "../../core/keys/key.js";
import { nameOfSubject } from "../../core/keys/key.js";
import type { ReadReport } from "../../core/tier/request/request.js";

/** The extensions from which Apollo Router takes the tags of a subgraph's response. */
export type RouterExtensions =
  | { readonly apolloCacheTags: readonly string[] }
  /** The tags of each entity, in their order. */
  | { readonly apolloEntityCacheTags: readonly (readonly string[])[] };

/** The part of a field's `info` that says where it is. */
interface PlacedInfo {
  readonly path?: PathNode | undefined;
  readonly variableValues?: object | undefined;
}

interface PathNode {
  readonly prev?: PathNode | undefined;
  readonly key: string | number;
}

/** One key that was read, and by which entities. */
interface KeyRead {
  readonly subjects: Set<Subject>;
  /** By their places in `_entities`. */
  readonly entities: Set<number>;
  /** Whether it was also read for what belongs to no entity, or to an unknown one. */
  isShared: boolean;
}

/** The field of a subgraph by which Apollo Router asks for entities. */
const ENTITIES = "_entities";

/**
 * Notes which of the entities in a response what was read belongs to: Apollo Router keeps each for itself. What a loader has read has
 * no place, and is a part of all of them.
 */
export class EntityReads {
  readonly #keys: Pick<KeySpace, "subjects">;
  readonly #reads = new Map<string, KeyRead>();

  constructor(keys: Pick<KeySpace, "subjects">) {
    this.#keys = keys;
  }

  /** `source`: what the field was resolved with; for a reference, its representation. */
  add(report: ReadReport, key: Key | undefined, info: unknown, source: unknown): void {
    if (key === undefined || report.outcome === "bypassed") return;
    const read = this.#readOf(key, info, source);
    for (const subject of [...report.subjects, this.#keys.subjects.entry(key)]) read.subjects.add(subject);
  }

  /** Notes that a field shares what another has read. */
  addShared(key: Key, info: unknown, source: unknown): void {
    this.#readOf(key, info, source);
  }

  #readOf({ name }: Key, info: unknown, source: unknown): KeyRead {
    let read = this.#reads.get(name);
    if (read === undefined) {
      read = { subjects: new Set(), entities: new Set(), isShared: false };
      this.#reads.set(name, read);
    }
    const entity = placeOf((info ?? {}) as PlacedInfo, source);
    if (entity === undefined) read.isShared = true;
    else read.entities.add(entity);
    return read;
  }

  /**
   * Returns the extensions for a result. `all`: the subjects of everything in it. `unplaced`: those among them of what has no place, and was
   * not noted here.
   */
  extensions(data: unknown, all: Iterable<Subject>, unplaced: Iterable<Subject>): RouterExtensions {
    const entities = (data as { readonly [ENTITIES]?: unknown } | null | undefined)?.[ENTITIES];
    if (!Array.isArray(entities)) return { apolloCacheTags: [...all].map(nameOfSubject) };
    const reads = [...this.#reads.values()];
    const placed = new Set(reads.flatMap(({ subjects, isShared }) => (isShared ? [] : [...subjects])));
    const shared = new Set([
      ...unplaced,
      ...reads.flatMap(({ subjects, isShared }) => (isShared ? [...subjects] : [])),
      ...[...all].filter((subject) => !placed.has(subject)),
    ]);
    return {
      apolloEntityCacheTags: entities.map((_, place) => {
        const own = reads.flatMap(({ subjects, entities: places }) => (places.has(place) ? [...subjects] : []));
        return [...new Set([...own, ...shared])].map(nameOfSubject);
      }),
    };
  }
}

/** Returns the place in `_entities` of a field. Undefined: it is in none. */
function placeOf({ path, variableValues }: PlacedInfo, source: unknown): number | undefined {
  let below: PathNode | undefined;
  let root = path;
  while (root?.prev !== undefined) {
    below = root;
    root = root.prev;
  }
  if (root?.key !== ENTITIES) return undefined;
  if (typeof below?.key === "number") return below.key;
  // A reference is resolved by the field of all entities, with an object that the client has sent.
  for (const sent of Object.values(variableValues ?? {})) {
    const place = Array.isArray(sent) ? sent.indexOf(source) : -1;
    if (place >= 0) return place;
  }
  return undefined;
}
