import {
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isEnumType,
  isLeafType,
  isListType,
  isObjectType,
} from "graphql";
import { describeSetting } from "../../base/errors.js";
import { didYouMean } from "../../base/option-names.js";
import { recordOption, refuseMistakes } from "../compile/apply-options.js";
import type { AnyField } from "../compile/field-rule.js";
import { entityTemplate } from "../compile/key-set.js";

export class IdFields {
  constructor(private readonly byType: ReadonlyMap<string, readonly string[]> = new Map()) {}

  /** Returns the names for the objects of a type, whether it has these fields or not. */
  of(typeName: string): readonly string[] {
    return this.byType.get(typeName) ?? DEFAULT;
  }

  in(type: GraphQLObjectType): readonly AnyField[] | undefined {
    const all = type.getFields();
    const fields = this.of(type.name).map((name) => all[name] as AnyField | undefined);
    return fields.includes(undefined) ? undefined : (fields as AnyField[]);
  }

  /** Returns the tag template of an object at `root`: `Rating:{$result.movieId}`, for example. */
  templateOf(typeName: string, root: "source" | "result"): string {
    return entityTemplate(typeName, root, this.of(typeName));
  }

  /** Returns what releases must agree on besides the fields of the type. Empty for the default. */
  markOf(typeName: string): string {
    const names = this.of(typeName);
    return names === DEFAULT ? "" : `(${names.join()})`;
  }

  /** What was given, in one form. Undefined: nothing. */
  toJSON(): object | undefined {
    return this.byType.size === 0 ? undefined : Object.fromEntries([...this.byType].sort());
  }
}

export function resolveIdFields(given: unknown, schema: GraphQLSchema): IdFields {
  const roots: unknown[] = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()];
  const example = '{ Movie: "slug", Rating: ["movieId", "userId"] }';
  const byType = new Map<string, readonly string[]>();
  for (const [typeName, value] of recordOption(given, "idFields", "fields by type", example)) {
    const refuse = (mistake: string): void => refuseMistakes(`\`idFields.${typeName}\`: ${mistake}`);
    const type = schema.getType(typeName);
    if (!isObjectType(type) || roots.includes(type)) {
      const known = Object.values(schema.getTypeMap()).filter(isObjectType).map(String);
      const got =
        type === undefined
          ? "the name of no type"
          : isObjectType(type)
            ? "that of a root type"
            : "that of another type";
      refuse(
        `expected the name of an object type of the schema that is no root type, got ${got}${didYouMean(typeName, { known })}`,
      );
    }
    const names: unknown[] = Array.isArray(value) ? value : [value];
    if (names.length === 0 || new Set(names).size < names.length)
      refuse("expected the name of a field, or several different ones, got none or one twice");
    for (const name of names) {
      const mistake = mistakeInField((type as GraphQLObjectType).getFields(), name);
      if (mistake !== undefined) refuse(mistake);
    }
    byType.set(typeName, names as string[]);
  }
  return new IdFields(byType);
}

function mistakeInField(fields: Readonly<Record<string, AnyField>>, name: unknown): string | undefined {
  const field = typeof name === "string" && Object.hasOwn(fields, name) ? fields[name] : undefined;
  if (field === undefined)
    return `expected names of fields of the type, got ${describeSetting(name)}; it has ${Object.keys(fields).join(", ")}`;
  const named = getNamedType(field.type);
  if (field.args.length > 0 || !isLeafType(named) || isListType(getNullableType(field.type)))
    return `expected fields without arguments that return a scalar or an enum, got \`${field.name}\`, ${field.args.length > 0 ? "one with arguments" : `one of the type ${field.type}`}`;
  return isEnumType(named) && named.getValues().some((member) => member.value !== member.name)
    ? `expected fields whose objects have what clients get, got \`${field.name}\`, an enum with internal values`
    : undefined;
}

const DEFAULT: readonly string[] = ["id"];
