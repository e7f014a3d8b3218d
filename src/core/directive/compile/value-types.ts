import {
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLType,
  getNullableType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isListType,
  isNonNullType,
  isObjectType,
  isUnionType,
} from "graphql";
import { idWriter, recordWriter, type ValueWriter, writeList } from "../../keys/canonical.js";
import { EACH, type Path } from "../../keys/path.js";
import type { AnyField } from "./field-rule.js";

/** Undefined if the schema does not say: of the context, custom scalars, and other properties. */
export function typeAt({ root, steps }: Path, parent: GraphQLObjectType, field: AnyField): GraphQLType | undefined {
  if (root === "source") return typeBelow(parent, steps);
  if (root === "result") return typeBelow(field.type, steps);
  if (root !== "args") return undefined;
  const [argument, ...below] = steps;
  return typeBelow(field.args.find(({ name }) => name === argument)?.type, below);
}

function typeBelow(start: GraphQLType | undefined, steps: readonly string[]): GraphQLType | undefined {
  let type = start;
  for (const step of steps) {
    const nullable = type && getNullableType(type);
    if (isListType(nullable)) type = step === EACH ? nullable.ofType : undefined;
    else type = nullable && fieldsIn(nullable as GraphQLNamedType)?.find(({ name }) => name === step)?.type;
  }
  return type;
}

interface Member {
  readonly name: string;
  readonly type: GraphQLType;
}

/** Members of a union that share the name of a field are assumed to agree on its type. */
function fieldsIn(type: GraphQLNamedType): readonly Member[] | undefined {
  if (isUnionType(type)) return type.getTypes().flatMap((member): Member[] => Object.values(member.getFields()));
  const hasFields = isInputObjectType(type) || isObjectType(type) || isInterfaceType(type);
  return hasFields ? Object.values(type.getFields() as Readonly<Record<string, Member>>) : undefined;
}

export const isIdType = (type: GraphQLType | undefined): boolean =>
  type !== undefined && String(getNullableType(type)) === "ID";

/**
 * Makes the writers of key parts from their GraphQL types, one for each type. Ids are written as
 * GraphQL serialises them, enum values by name, and the fields of objects in a fixed order.
 * Everything that GraphQL does not convert to one form is written by `write`: values of other
 * scalars, and what the schema does not describe.
 */
export class ValueWriters {
  readonly #ofNamed = new Map<GraphQLNamedType, ValueWriter>();

  constructor(private readonly write: ValueWriter) {}

  of(type: GraphQLType | undefined): ValueWriter {
    if (type === undefined) return this.write;
    if (isNonNullType(type)) return this.of(type.ofType);
    if (isListType(type)) return listWriter(this.of(type.ofType), this.write);
    return this.#ofNamed.get(type) ?? this.#make(type);
  }

  ofArguments(field: AnyField): ValueWriter {
    return recordWriter(new Map(field.args.map(({ name, type }) => [name, this.of(type)])), this.write);
  }

  #make(type: GraphQLNamedType): ValueWriter {
    if (type.name === "ID") return idWriter(this.write);
    if (isEnumType(type))
      return enumWriter(new Map(type.getValues().map(({ value, name }) => [value, name])), this.write);
    const fields = fieldsIn(type);
    if (fields === undefined) return this.write;
    const writers = new Map<string, ValueWriter>();
    const writer = recordWriter(writers, this.write);
    // Before the fields, since types can contain themselves.
    this.#ofNamed.set(type, writer);
    for (const field of fields) writers.set(field.name, this.of(field.type));
    return writer;
  }
}

function listWriter(write: ValueWriter, writeOther: ValueWriter): ValueWriter {
  if (write === writeOther) return write;
  return (value, depth) => (Array.isArray(value) ? writeList(value, depth, write) : writeOther(value, depth));
}

function enumWriter(names: ReadonlyMap<unknown, string>, writeOther: ValueWriter): ValueWriter {
  return (value, depth) => {
    const name = names.get(value);
    return name === undefined ? writeOther(value, depth) : `e${name}`;
  };
}
