import { optionInvalid } from "../base/errors.js";
import { type LoaderKind, placeOf } from "./loader-options.js";

/**
 * The shapes and entities of the types of applied schemas, for loaders with a `type`. A loader may
 * be created before or after its schema is applied, so its type is checked by whichever comes
 * second, and looked up when the loader is used.
 */
export class TypeShapes {
  /** By type name: the lookup of the schema that was applied last and has the type. */
  readonly #lookups = new Map<string, FactsLookup>();
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
    const lookup = this.#lookups.get(type);
    if (lookup !== undefined) return lookup(type);
    throw optionInvalid(
      `${placeOf(name, kind)}: \`type\`: expected a schema that has the type ${JSON.stringify(type)}, got none; call applyCached(schema, cache) before you use the loader, or set \`version\` instead`,
      { coordinate: name },
    );
  }
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
