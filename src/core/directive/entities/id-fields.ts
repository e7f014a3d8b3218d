import {
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isEnumType,
  isLeafType,
  isListType,
  isObjectType,
} from "graphql";
import { CachedError, describeSetting } from "../../base/errors.js";
import { didYouMean } from "../../base/option-names.js";
import type { AnyField } from "../compile/field-rule.js";

const DEFAULT: readonly string[] = ["id"];

/** The names of the fields that identify the objects of each type. */
export class IdFields {
  readonly #byType: ReadonlyMap<string, readonly string[]>;

  constructor(byType: ReadonlyMap<string, readonly string[]> = new Map()) {
    this.#byType = byType;
  }

  /** Returns the names for the objects of a type, whether it has these fields or not. */
  of(typeName: string): readonly string[] {
    return this.#byType.get(typeName) ?? DEFAULT;
  }

  /** Returns the fields of these names. Undefined if the type lacks one. */
  in(type: GraphQLObjectType): readonly AnyField[] | undefined {
    const all = type.getFields();
    const fields = this.of(type.name).map((name) => all[name] as AnyField | undefined);
    return fields.includes(undefined) ? undefined : (fields as AnyField[]);
  }

  /** Returns the template of the tag of an object, which is at `root`: `Rating:{$result.movieId}:{$result.userId}`. */
  templateOf(typeName: string, root: "source" | "result"): string {
    return `${typeName}:${this.of(typeName)
      .map((name) => `{$${root}.${name}}`)
      .join(":")}`;
  }

  /** Returns what releases have to agree on besides the fields of the type. Empty for the default. */
  markOf(typeName: string): string {
    const names = this.of(typeName);
    return names === DEFAULT ? "" : `(${names.join()})`;
  }

  /** What was given, in one form. Undefined: nothing. */
  toJSON(): object | undefined {
    return this.#byType.size === 0 ? undefined : Object.fromEntries([...this.#byType].sort());
  }
}

/** Returns the option `idFields`. Throws `CACHED_OPTION_INVALID`. */
export function resolveIdFields(given: unknown, schema: GraphQLSchema): IdFields {
  if (given === undefined) return new IdFields();
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw invalid(
      "",
      `expected an object of fields by type, such as { Movie: "slug", Rating: ["movieId", "userId"] }, got ${describeSetting(given)}`,
    );
  const byType = new Map<string, readonly string[]>();
  for (const [typeName, value] of Object.entries(given)) {
    const type = schema.getType(typeName);
    const roots: unknown[] = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()];
    if (!isObjectType(type) || roots.includes(type))
      throw invalid(
        typeName,
        `expected the name of an object type of the schema that is no root type, got ${kindOf(type)}${meant(typeName, schema)}`,
      );
    const names: unknown[] = Array.isArray(value) ? value : [value];
    if (names.length === 0 || new Set(names).size < names.length)
      throw invalid(typeName, "expected the name of a field, or several different ones, got none or one twice");
    for (const name of names) checkField(type, name);
    byType.set(typeName, names as string[]);
  }
  return new IdFields(byType);
}

function checkField(type: GraphQLObjectType, name: unknown): void {
  const fields = type.getFields();
  const field = typeof name === "string" && Object.hasOwn(fields, name) ? (fields[name] as AnyField) : undefined;
  if (field === undefined)
    throw invalid(
      type.name,
      `expected names of fields of the type, got ${describeSetting(name)}; it has ${Object.keys(fields).join(", ")}`,
    );
  const given =
    field.args.length > 0 ? "one with arguments" : hasSingleValue(field) ? undefined : `one of the type ${field.type}`;
  if (given !== undefined)
    throw invalid(
      type.name,
      `expected fields without arguments that return a scalar or an enum, got \`${String(name)}\`, ${given}`,
    );
  const named = getNamedType(field.type);
  if (isEnumType(named) && named.getValues().some((member) => member.value !== member.name))
    throw invalid(
      type.name,
      `expected fields whose objects have what clients get, got \`${String(name)}\`, an enum with internal values`,
    );
}

const meant = (typeName: string, schema: GraphQLSchema): string =>
  didYouMean(typeName, { known: Object.values(schema.getTypeMap()).filter(isObjectType).map(String) });

const kindOf = (type: GraphQLNamedType | undefined): string =>
  type === undefined ? "the name of no type" : isObjectType(type) ? "that of a root type" : "that of another type";

/** Whether a field returns one value without fields. */
export const hasSingleValue = ({ type }: Pick<AnyField, "type">): boolean =>
  isLeafType(getNamedType(type)) && !isListType(getNullableType(type));

const invalid = (typeName: string, mistake: string): CachedError =>
  new CachedError(
    "CACHED_OPTION_INVALID",
    `applyCached: \`idFields${typeName === "" ? "" : `.${typeName}`}\`: ${mistake}`,
  );
