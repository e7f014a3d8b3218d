import { hash } from "node:crypto";
import {
  type GraphQLEnumType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isEnumType,
  isObjectType,
} from "graphql";
import { getOrMake } from "../../base/multimap.js";
import { byCodeUnits, canonicalize, type ValueWriter } from "../../keys/canonical.js";
import { hasOwnResolver } from "./own-resolver.js";
import { reached } from "./type-graph.js";

/**
 * The shapes of the types of one schema. The shape of a type is what the schema says about a value
 * of it: the fields of every object type that the value can contain, by name and type, the values
 * of enums, and the members of unions and interfaces. Two releases in which a type has the same
 * shape can read each other's values.
 *
 * A value contains what fields without a resolver read from it. A field with a resolver ends the
 * walk; that it exists still counts, since its resolver reads its parent.
 *
 * Each type is described once, whatever the number of fields that ask for its shape.
 */
export class Shapes {
  readonly #schema: GraphQLSchema;
  readonly #markOf: (type: GraphQLObjectType) => string;
  readonly #parts = new Map<GraphQLNamedType, Part>();
  /** By the text of the type with its wrappers: each field has wrappers of its own. */
  readonly #digests = new Map<string, string>();

  /** `markOf` returns what else releases have to agree on to share values of a type. */
  constructor(schema: GraphQLSchema, markOf: (type: GraphQLObjectType) => string = () => "") {
    this.#schema = schema;
    this.#markOf = markOf;
  }

  of(type: GraphQLOutputType): string {
    const text = String(type);
    return getOrMake(this.#digests, text, () => {
      const types = [...reached<GraphQLNamedType>([getNamedType(type)], (each) => this.#partOf(each).next)];
      return digestOf([text, ...types.map((each) => this.#partOf(each).digest).sort(byCodeUnits)]);
    });
  }

  #partOf(type: GraphQLNamedType): Part {
    return getOrMake(this.#parts, type, () => this.#describe(type));
  }

  #describe(type: GraphQLNamedType): Part {
    if (isAbstractType(type)) {
      const possible = this.#schema.getPossibleTypes(type);
      return partOf(type.name, possible.map(String), possible);
    }
    if (!isObjectType(type)) return partOf(type.name, isEnumType(type) ? enumValues(type) : [], []);
    const fields = Object.values(type.getFields());
    // A field that loses its resolver needs a property that older values may lack.
    const texts = fields.map((field) => `${field.name}${hasOwnResolver(field) ? "()" : ""}:${field.type}`);
    const next = fields.filter((field) => !hasOwnResolver(field)).map((field) => getNamedType(field.type));
    return partOf(`${type.name}${this.#markOf(type)}`, texts, next);
  }
}

/** What one type adds to a shape, and the types that its values contain. */
interface Part {
  readonly digest: string;
  readonly next: readonly GraphQLNamedType[];
}

/** A stored value holds the internal values of an enum, so these count as well. */
const enumValues = (type: GraphQLEnumType): string[] =>
  type.getValues().map(({ name, value }) => (value === name ? name : `${name}=${textOrType(value)}`));

export function textOrType(value: unknown, write?: ValueWriter): string {
  try {
    return canonicalize(value, write);
  } catch {
    return typeof value;
  }
}

const partOf = (name: string, texts: readonly string[], next: readonly GraphQLNamedType[]): Part => ({
  digest: digestOf([name, ...[...texts].sort()]),
  next,
});

const digestOf = (texts: readonly string[]): string => hash("sha256", texts.join("\n"), "base64url");
