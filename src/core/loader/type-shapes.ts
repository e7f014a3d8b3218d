import { optionInvalid } from "../base/errors.js";
import { getOrMake } from "../base/multimap.js";
import { type LoaderKind, placeOf } from "./loader-options.js";

/**
 * The shapes and entities of the types of applied schemas, for loaders with a `type`. A loader may
 * be created before or after its schema is applied, so its type is checked by whichever comes
 * second, and looked up when the loader is used.
 */
export class TypeShapes {
  /** By type name: the lookup of the schema that was applied last and has the type. */
  readonly #lookups = new Map<string, FactsLookup>();
  /**
   * By the name of a type that loaders have, and by shape: what the schemas say that were applied
   * since, and the last one before. Schemas of one cache, as one for each role, can differ.
   */
  readonly #facts = new Map<string, Map<string, TypeFacts>>();
  /** By type name: those of all shapes together. */
  readonly #merged = new Map<string, TypeFacts>();
  readonly #wanted = new Map<string, { readonly type: string; readonly place: string }>();

  /** Throws `CACHED_OPTION_INVALID` if a loader names a type that no schema has. */
  add(typeNames: readonly string[], lookup: FactsLookup): void {
    const isKnown = (type: string): boolean => typeNames.includes(type) || this.#lookups.has(type);
    for (const [loader, { type, place }] of this.#wanted)
      if (!isKnown(type))
        throw optionInvalid(
          `${place}: ${unknownType(type)}; correct it, or create the loader after the schema that has the type is applied`,
          { coordinate: loader },
        );
    for (const name of typeNames) this.#lookups.set(name, lookup);
    for (const { type } of this.#wanted.values()) if (typeNames.includes(type)) this.#learn(type, lookup);
  }

  /** Returns the mistake if schemas are applied and none has the type. */
  mistakeOf(type: string): string | undefined {
    return this.#lookups.size > 0 && !this.#lookups.has(type) ? unknownType(type) : undefined;
  }

  /** Has schemas that are applied later checked for the type of a loader, and of none before it. */
  want({ name, kind }: NamedLoader, type: string | undefined): void {
    if (type === undefined) this.#wanted.delete(name);
    else this.#wanted.set(name, { type, place: placeOf(name, kind) });
  }

  /** Throws `CACHED_OPTION_INVALID` if no schema has been applied. */
  of({ name, kind }: NamedLoader, type: string): TypeFacts {
    const merged = this.#merged.get(type);
    if (merged !== undefined) return merged;
    const lookup = this.#lookups.get(type);
    if (lookup !== undefined) return this.#learn(type, lookup);
    throw optionInvalid(
      `${placeOf(name, kind)}: \`type\`: expected a schema that has the type ${JSON.stringify(type)}, got none; call applyCached(schema, cache) before you use the loader, or set \`version\` instead`,
      { coordinate: name },
    );
  }

  #learn(type: string, lookup: FactsLookup): TypeFacts {
    const byShape = getOrMake(this.#facts, type, () => new Map());
    const facts = lookup(type);
    byShape.set(facts.shape, facts);
    const merged = byShape.size === 1 ? facts : mergedFacts([...byShape.values()]);
    this.#merged.set(type, merged);
    return merged;
  }
}

/** A value has the tags of all: the fields of any of the schemas can read it. */
function mergedFacts(all: readonly TypeFacts[]): TypeFacts {
  const finders = all.flatMap(({ entityTagsIn }) => entityTagsIn ?? []);
  return {
    shape: all
      .map(({ shape }) => shape)
      .sort()
      .join(" "),
    entityTagsIn:
      finders.length === 0
        ? undefined
        : (value, context) => [...new Set(finders.flatMap((tagsIn) => tagsIn(value, context)))],
  };
}

interface NamedLoader {
  readonly name: string;
  readonly kind: LoaderKind;
}

export interface TypeFacts {
  readonly shape: string;
  /** Returns the tags of the entities in a value. Undefined if values have no such tags. */
  readonly entityTagsIn: ((value: unknown, context: unknown) => readonly string[]) | undefined;
}

type FactsLookup = (typeName: string) => TypeFacts;

const unknownType = (type: string): string =>
  `\`type\`: expected the name of an output type of an applied schema, got ${JSON.stringify(type)}`;
