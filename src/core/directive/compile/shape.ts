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
import { canonicalize, type ValueWriter } from "../../keys/canonical.js";
import { hasOwnResolver } from "./own-resolver.js";

/**
 * The shapes of the types of one schema. The shape of a type is what the schema says about a value
 * of it: the fields of every object type that the value can contain, by name and type, the values
 * of enums, and the members of unions and interfaces. Two releases in which a type has the same
 * shape can read each other's values.
 *
 * A value contains what fields without a resolver read from it. A field with a resolver ends the
 * walk; that it exists still counts, since its resolver reads its parent.
 *
 * Each type is visited once, whatever the number of fields that ask for its shape: types that
 * contain each other share a digest, which is made of their texts and of the digests of the types
 * below them (strongly connected components, found with Tarjan's algorithm).
 */
export class Shapes {
  readonly #schema: GraphQLSchema;
  readonly #markOf: (type: GraphQLObjectType) => string;
  readonly #visits = new Map<GraphQLNamedType, Visit>();
  /** By the text of the type with its wrappers: each field has wrappers of its own. */
  readonly #digests = new Map<string, string>();
  readonly #open: Visit[] = [];

  /** `markOf` returns what else releases have to agree on to share values of a type. */
  constructor(schema: GraphQLSchema, markOf: (type: GraphQLObjectType) => string = () => "") {
    this.#schema = schema;
    this.#markOf = markOf;
  }

  of(type: GraphQLOutputType): string {
    const text = String(type);
    return getOrMake(this.#digests, text, () => digestOf([text, this.#visit(getNamedType(type)).digest as string]));
  }

  #visit(type: GraphQLNamedType): Visit {
    const known = this.#visits.get(type);
    if (known !== undefined) return known;
    const order = this.#visits.size;
    const visit: Visit = { order, lowest: order, ...this.#describe(type), digest: undefined };
    this.#visits.set(type, visit);
    this.#open.push(visit);
    for (const next of visit.reached) {
      const reached = this.#visit(next);
      if (reached.digest === undefined) visit.lowest = Math.min(visit.lowest, reached.lowest);
    }
    if (visit.lowest === order) this.#closeComponent(visit);
    return visit;
  }

  /** Gives a digest to all types that contain each other, of which `first` was visited first. */
  #closeComponent(first: Visit): void {
    const members = this.#open.splice(this.#open.lastIndexOf(first));
    const reached = members.flatMap((member) => member.reached.map((next) => this.#visit(next).digest));
    const below = new Set(reached.filter((digest) => digest !== undefined));
    const digest = digestOf([...members.map(({ text }) => text).sort(), ...[...below].sort()]);
    for (const member of members) member.digest = digest;
  }

  #describe(type: GraphQLNamedType): Pick<Visit, "text" | "reached"> {
    if (isAbstractType(type)) {
      const possible = this.#schema.getPossibleTypes(type);
      return { text: textOf(type.name, possible.map(String)), reached: possible };
    }
    if (!isObjectType(type)) return { text: textOf(type.name, isEnumType(type) ? enumValues(type) : []), reached: [] };
    const fields = Object.values(type.getFields());
    // A field that loses its resolver needs a property that older values may lack.
    const texts = fields.map((field) => `${field.name}${hasOwnResolver(field) ? "()" : ""}:${field.type}`);
    const reached = fields.filter((field) => !hasOwnResolver(field)).map((field) => getNamedType(field.type));
    return { text: textOf(`${type.name}${this.#markOf(type)}`, texts), reached: [...new Set(reached)] };
  }
}

interface Visit {
  readonly order: number;
  /** The lowest `order` that is known to be reachable from here and not yet in a component. */
  lowest: number;
  readonly text: string;
  readonly reached: readonly GraphQLNamedType[];
  digest: string | undefined;
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

const textOf = (name: string, parts: readonly string[]): string => `${name}{${[...parts].sort().join(" ")}}`;

const digestOf = (texts: readonly string[]): string => hash("sha256", texts.join("\n"), "base64url");
