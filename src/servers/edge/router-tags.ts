import type { GraphQLResolveInfo } from "graphql";
import { coercedVariables, noVariables } from "../../core/base/graphql-version.js";
import { getOrMake } from "../../core/base/multimap.js";
import { type Key, type KeySpace, nameOfSubject, type Subject } from "../../core/keys/key.js";
import type { ReadReport } from "../../core/tier/request/request.js";

/** Notes which entity of a response each read belongs to: Apollo Router keeps each for itself. What a loader has read is a part of all. */
export class EntityReads {
  readonly #keys: Pick<KeySpace, "subjects">;
  readonly #reads = new Map<string, KeyRead>();

  constructor(keys: Pick<KeySpace, "subjects">) {
    this.#keys = keys;
  }

  /** `source`: what the field was resolved with; for a reference, its representation. */
  add(report: ReadReport, key: Key | undefined, info: unknown, source: unknown): void {
    if (key === undefined || report.outcome === "bypassed") return;
    const { subjects } = this.addShared(key, info, source);
    for (const subject of [...report.subjects, this.#keys.subjects.entry(key)]) subjects.add(subject);
  }

  addShared({ name }: Key, info: unknown, source: unknown): KeyRead {
    const read = getOrMake(this.#reads, name, (): KeyRead => ({ subjects: new Set(), entities: new Set() }));
    read.entities.add(placeOf(info, source));
    return read;
  }

  /** Returns the extensions for a result. `all`: the subjects of everything in it. `unplaced`: those of what was not noted here. */
  extensions(data: unknown, all: Iterable<Subject>, unplaced: Iterable<Subject>): RouterExtensions {
    const list = (data as { readonly [ENTITIES]?: unknown } | null | undefined)?.[ENTITIES];
    if (!Array.isArray(list)) return { apolloCacheTags: [...all].map(nameOfSubject) };
    const placed = new Set<Subject>();
    const unplacedReads = new Set<Subject>();
    const own = list.map(() => new Set<Subject>());
    for (const { subjects, entities } of this.#reads.values()) {
      const noted = entities.has(undefined) ? unplacedReads : placed;
      for (const subject of subjects) {
        noted.add(subject);
        for (const place of entities) if (place !== undefined) own[place]?.add(subject);
      }
    }
    const shared = [...unplaced, ...unplacedReads, ...[...all].filter((subject) => !placed.has(subject))];
    return {
      apolloEntityCacheTags: own.map((subjects) => [...new Set([...subjects, ...shared])].map(nameOfSubject)),
    };
  }
}

/** The extensions from which Apollo Router takes the tags of a subgraph's response. */
export type RouterExtensions =
  | { readonly apolloCacheTags: readonly string[] }
  /** The tags of each entity, in their order. */
  | { readonly apolloEntityCacheTags: readonly (readonly string[])[] };

interface KeyRead {
  readonly subjects: Set<Subject>;
  /** By their places in `_entities`. Undefined: it was also read for what belongs to no entity, or to an unknown one. */
  readonly entities: Set<number | undefined>;
}

/** The field of a subgraph by which Apollo Router asks for entities. */
const ENTITIES = "_entities";

/** Returns the place in `_entities` of the field of an `info`. Undefined: it is in none. */
function placeOf(info: unknown, source: unknown): number | undefined {
  const { path, variableValues = noVariables() } = (info ?? {}) as Partial<
    Pick<GraphQLResolveInfo, "path" | "variableValues">
  >;
  const keys: (string | number)[] = [];
  for (let at = path; at !== undefined; at = at.prev) keys.unshift(at.key);
  const [root, place] = keys;
  if (root !== ENTITIES) return undefined;
  if (typeof place === "number") return place;
  // A reference is resolved by the field of all entities, with an object that the client has sent.
  for (const sent of Object.values(coercedVariables(variableValues))) {
    const sentAt = Array.isArray(sent) ? sent.indexOf(source) : -1;
    if (sentAt >= 0) return sentAt;
  }
  return undefined;
}
