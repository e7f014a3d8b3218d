import {
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
} from "graphql";
import { getOrMake } from "../../base/multimap.js";
import { type Annotated, directivesOn } from "../compile/directive-names.js";
import type { AnyField } from "../compile/field-rule.js";
import { createEmbeddedFinder } from "../entities/embedded-fields.js";
import { isAuthName } from "./auth-names.js";

/**
 * Finds the auth marks of a schema: directives in the SDL and in `extensions.directives`, settings in `extensions`,
 * the options that Pothos and Nexus keep there, and the roles of TypeGraphQL. A mark covers a field if it is on the
 * field, on its parent type, on the interfaces of that and the same field of these, on its arguments and what input
 * types these lead to, or on what the field returns: its interfaces, the members of a union, the implementations of
 * an interface, and what is embedded in its value.
 */
export class AuthMarks {
  readonly #schema: GraphQLSchema;
  readonly #isDirective: (name: string) => boolean;
  readonly #marks = new Map<object, readonly AuthMark[]>();
  readonly #ofArguments = new Map<AnyField, readonly AuthMark[]>();
  readonly #restricted: ReadonlySet<string>;
  /** The first mark of the schema and its coordinate, such as "`@auth` on `Query.bill`". Undefined if there is none. */
  readonly first: string | undefined;
  #embeddedIn: ((returned: GraphQLNamedType) => readonly string[]) | undefined;

  /** `others`: directives that never count, such as `@cached` under another name. */
  constructor(schema: GraphQLSchema, isAuthDirective: (name: string) => boolean, others: readonly string[]) {
    this.#schema = schema;
    this.#isDirective = (name) => isAuthDirective(name) && !others.includes(name);
    this.#restricted = restrictedByTypeGraphQL(schema);
    this.first = this.#findFirst();
  }

  /** Returns what covers a field, such as "`@auth` covers it". Undefined if nothing does. */
  coverOf(parent: GraphQLObjectType, field: AnyField): string | undefined {
    if (this.first === undefined) return undefined;
    const returned = getNamedType(field.type);
    const mark = this.#marksAround(parent, field)[0] ?? this.#marksOnReturned(returned)[0];
    if (mark !== undefined) return `${mark.text} covers it`;
    this.#embeddedIn ??= createEmbeddedFinder(
      this.#schema,
      (type, inner) =>
        this.#marksOnField(type, inner).length > 0 || this.#marksOnReturned(getNamedType(inner.type)).length > 0,
    );
    const [embedded] = this.#embeddedIn(returned);
    return embedded === undefined
      ? undefined
      : `its value contains \`${embedded}\`, which ${this.#textAt(embedded)} covers`;
  }

  /** Returns the mark that is checked by the very resolver that is to be cached, where a hit would skip the check. Undefined if there is none. */
  checkedInside(parent: GraphQLObjectType, field: AnyField): AuthMark | undefined {
    const { pothosOptions, pothosResolveWrapped } = field.extensions as LibraryExtensions;
    const isWrappedByPothos = pothosOptions !== undefined && pothosResolveWrapped !== false;
    const marks = isWrappedByPothos ? this.#marksAround(parent, field) : this.#marksOnField(parent, field);
    return marks.find(({ checkedBy }) => checkedBy !== undefined && (checkedBy !== "Pothos" || isWrappedByPothos));
  }

  #marksAround(parent: GraphQLObjectType, field: AnyField): AuthMark[] {
    const interfaces = parent.getInterfaces();
    return [
      ...this.#marksOnField(parent, field),
      ...this.#marksOn(parent),
      ...interfaces.flatMap((type) => {
        const same = type.getFields()[field.name];
        return [...(same === undefined ? [] : this.#marksOnField(type, same)), ...this.#marksOn(type)];
      }),
    ];
  }

  #marksOnReturned(returned: GraphQLNamedType): AuthMark[] {
    const interfaces = isObjectType(returned) || isInterfaceType(returned) ? returned.getInterfaces() : [];
    const possible = isAbstractType(returned) ? this.#schema.getPossibleTypes(returned) : [];
    return [returned, ...interfaces, ...possible].flatMap((type) => this.#marksOn(type));
  }

  #marksOnField(type: GraphQLNamedType, field: AnyField): readonly AuthMark[] {
    const marks = [...this.#marksOn(field), ...this.#marksOnArguments(field)];
    if (!this.#restricted.has(`${type.name}.${field.name}`)) return marks;
    return [{ text: "`@Authorized`", checkedBy: "TypeGraphQL" }, ...marks];
  }

  #marksOnArguments(field: AnyField): readonly AuthMark[] {
    return getOrMake(this.#ofArguments, field, () => this.#readArguments(field));
  }

  #readArguments(field: AnyField): readonly AuthMark[] {
    const visited = new Set<GraphQLNamedType>();
    const ofInput = (type: GraphQLNamedType): AuthMark[] => {
      if (!isInputObjectType(type) || visited.has(type)) return [];
      visited.add(type);
      const fields = Object.values(type.getFields());
      return [
        ...this.#marksOn(type),
        ...fields.flatMap((one) => [...this.#marksOn(one), ...ofInput(getNamedType(one.type))]),
      ];
    };
    return field.args.flatMap((one) => [...this.#marksOn(one), ...ofInput(getNamedType(one.type))]);
  }

  #marksOn(target: object): readonly AuthMark[] {
    return getOrMake(this.#marks, target, () => this.#read(target as Annotated));
  }

  #read(target: Annotated): AuthMark[] {
    const extensions = (target.extensions ?? {}) as LibraryExtensions;
    const settings = (holder: object | undefined, where: string, checkedBy: AuthMark["checkedBy"]): AuthMark[] =>
      Object.entries(holder ?? {})
        .filter(([name, value]) => value !== undefined && value !== null && value !== false && name !== "directives")
        .filter(([name]) => isAuthName(name))
        .map(([name]) => ({ text: `\`${where}${name}\``, checkedBy }));
    return [
      ...directivesOf(target)
        .filter(this.#isDirective)
        .map((name): AuthMark => ({ text: `\`@${name}\``, checkedBy: undefined })),
      ...settings(extensions.pothosOptions, "", "Pothos"),
      ...settings(extensions.nexus?.config, "", "Nexus"),
      ...settings(extensions, "extensions.", undefined),
    ];
  }

  #findFirst(): string | undefined {
    for (const type of Object.values(this.#schema.getTypeMap())) {
      if (type.name.startsWith("__")) continue;
      const [onType] = this.#marksOn(type);
      if (onType !== undefined) return `${onType.text} on \`${type.name}\``;
      for (const field of isObjectType(type) || isInterfaceType(type) ? Object.values(type.getFields()) : []) {
        const [mark] = this.#marksOnField(type, field);
        if (mark !== undefined) return `${mark.text} on \`${type.name}.${field.name}\``;
      }
    }
    return undefined;
  }

  #textAt(coordinate: string): string {
    const [typeName = "", fieldName = ""] = coordinate.split(".");
    const type = this.#schema.getType(typeName) as GraphQLObjectType;
    const field = type.getFields()[fieldName] as AnyField;
    const [mark] = [...this.#marksOnField(type, field), ...this.#marksOnReturned(getNamedType(field.type))];
    return (mark as AuthMark).text;
  }
}

/** What says in a schema that not every caller may see something, whatever library reads it. */
export interface AuthMark {
  /** As it is written, such as `@auth`, or `authScopes` in the options of a code-first library. */
  readonly text: string;
  /** The library that checks it inside of the resolver, where a hit skips the check. Undefined: it may be checked outside of the cache. */
  readonly checkedBy: "Pothos" | "Nexus" | "TypeGraphQL" | undefined;
}

interface LibraryExtensions {
  readonly directives?: unknown;
  readonly pothosOptions?: object;
  /** Whether a plugin of Pothos has wrapped the resolver. Older versions do not say. */
  readonly pothosResolveWrapped?: boolean;
  readonly nexus?: { readonly config?: object };
}

/** The fields of a type as TypeGraphQL keeps them, not in the schema, with the roles of `@Authorized`. */
interface TypeGraphQLFields {
  readonly name: string;
  readonly fields?: readonly { readonly schemaName: string; readonly roles?: readonly unknown[] }[] | undefined;
}

/** Returns the names of the directives on something. Federation's `federation__policy` is `policy`. */
function directivesOf(target: Annotated): string[] {
  const inSdl = directivesOn(target).map(({ name }) => name.value);
  const { directives } = (target.extensions ?? {}) as LibraryExtensions;
  const inExtensions = Array.isArray(directives)
    ? directives.map((directive) => String((directive as { name?: unknown } | null)?.name))
    : Object.keys((directives as object | undefined) ?? {});
  return [...inSdl, ...inExtensions].map((name) => name.split("__").at(-1) ?? name);
}

function restrictedByTypeGraphQL(schema: GraphQLSchema): ReadonlySet<string> {
  interface Storage {
    readonly queries?: TypeGraphQLFields["fields"];
    readonly objectTypes?: readonly TypeGraphQLFields[];
    readonly interfaceTypes?: readonly TypeGraphQLFields[];
  }
  const storage = (globalThis as { TypeGraphQLMetadataStorage?: Storage }).TypeGraphQLMetadataStorage;
  const { queries, objectTypes = [], interfaceTypes = [] } = storage ?? {};
  const ofQueries = { name: schema.getQueryType()?.name ?? "Query", fields: queries };
  return new Set(
    [ofQueries, ...objectTypes, ...interfaceTypes].flatMap(({ name, fields = [] }) =>
      fields.flatMap(({ schemaName, roles }) => (roles === undefined ? [] : [`${name}.${schemaName}`])),
    ),
  );
}
