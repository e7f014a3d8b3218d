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
import type { Annotated } from "../compile/directive-names.js";
import type { AnyField } from "../compile/field-rule.js";
import { createEmbeddedFinder } from "../entities/embedded-fields.js";
import { isAuthName } from "./auth-names.js";

/** What says in a schema that not every caller may see something, whatever library reads it. */
export interface AuthMark {
  /** As it is written, such as `@auth`, or `authScopes` in the options of a code-first library. */
  readonly text: string;
  /**
   * The library that checks it inside of the resolver that the schema has, where a hit skips the check. Undefined: it may be
   * checked outside of the cache.
   */
  readonly checkedBy: "Pothos" | "Nexus" | "TypeGraphQL" | undefined;
}

/** What code-first libraries keep in the extensions of fields and types. */
interface LibraryExtensions {
  readonly directives?: unknown;
  readonly pothosOptions?: object;
  /** Whether a plugin of Pothos has wrapped the resolver. Older versions do not say. */
  readonly pothosResolveWrapped?: boolean;
  readonly nexus?: { readonly config?: object };
}

/** Where TypeGraphQL keeps the roles of `@Authorized`: not in the schema. */
interface TypeGraphQLStorage {
  readonly queries?: readonly Restricted[];
  readonly objectTypes?: readonly WithFields[];
  readonly interfaceTypes?: readonly WithFields[];
}

interface WithFields {
  readonly name: string;
  readonly fields?: readonly Restricted[] | undefined;
}

interface Restricted {
  readonly schemaName: string;
  /** Undefined without `@Authorized`. */
  readonly roles?: readonly unknown[];
}

/**
 * Finds the auth marks of a schema: directives in the SDL and in `extensions.directives`, settings in `extensions`, the
 * options that Pothos and Nexus keep there, and the roles of TypeGraphQL. A mark covers a field if it is on the field, on its
 * parent type and the interfaces of that, on its arguments and the fields of input types that these lead to, on the same field of these, or on what the field returns: its interfaces, the
 * members of a union, the implementations of an interface, and what is embedded in its value. Federation's
 * `federation__policy` counts as `policy`.
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
    const mark = this.markOf(parent, field);
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

  /** Returns the first mark on a field, its parent or what it returns. What is embedded in its value does not count. */
  markOf(parent: GraphQLObjectType, field: AnyField): AuthMark | undefined {
    if (this.first === undefined) return undefined;
    return this.#marksAround(parent, field)[0] ?? this.#marksOnReturned(getNamedType(field.type))[0];
  }

  /**
   * Returns the mark of a field that is checked by the very resolver that is to be cached, so that a hit would skip the check.
   * Undefined if there is none.
   */
  checkedInside(parent: GraphQLObjectType, field: AnyField): AuthMark | undefined {
    const { pothosOptions, pothosResolveWrapped } = field.extensions as LibraryExtensions;
    const isWrappedByPothos = pothosOptions !== undefined && pothosResolveWrapped !== false;
    const marks = isWrappedByPothos ? this.#marksAround(parent, field) : this.#marksOnField(parent, field);
    return marks.find(({ checkedBy }) => checkedBy !== undefined && (checkedBy !== "Pothos" || isWrappedByPothos));
  }

  /** The marks on a field, its parent type, the interfaces of that, and the same field of these. */
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

  /** The marks on arguments, and on the input types and their fields that these lead to. */
  #marksOnArguments(field: AnyField): readonly AuthMark[] {
    const known = this.#ofArguments.get(field);
    if (known !== undefined) return known;
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
    const marks = field.args.flatMap((one) => [...this.#marksOn(one), ...ofInput(getNamedType(one.type))]);
    this.#ofArguments.set(field, marks);
    return marks;
  }

  #marksOn(target: object): readonly AuthMark[] {
    const known = this.#marks.get(target);
    if (known !== undefined) return known;
    const marks = this.#read(target as Annotated);
    this.#marks.set(target, marks);
    return marks;
  }

  #read(target: Annotated): AuthMark[] {
    const extensions = (target.extensions ?? {}) as LibraryExtensions;
    const directives = directivesOf(target)
      .filter((name) => this.#isDirective(name))
      .map((name): AuthMark => ({ text: `\`@${name}\``, checkedBy: undefined }));
    const settings = ([holder, where, checkedBy]: readonly [
      object | undefined,
      string,
      AuthMark["checkedBy"],
    ]): AuthMark[] =>
      settingsIn(holder)
        .filter((name) => name !== "directives" && isAuthName(name))
        .map((name) => ({ text: `\`${where}${name}\``, checkedBy }));
    return [
      ...directives,
      ...settings([extensions.pothosOptions, "", "Pothos"]),
      ...settings([extensions.nexus?.config, "", "Nexus"]),
      ...settings([extensions, "extensions.", undefined]),
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

  /** The text of the mark that makes an embedded field count. */
  #textAt(coordinate: string): string {
    const [typeName = "", fieldName = ""] = coordinate.split(".");
    const type = this.#schema.getType(typeName) as GraphQLObjectType;
    const field = type.getFields()[fieldName] as AnyField;
    const [mark] = [...this.#marksOnField(type, field), ...this.#marksOnReturned(getNamedType(field.type))];
    return (mark as AuthMark).text;
  }
}

function directivesOf({ astNode, extensionASTNodes = [], extensions }: Annotated): string[] {
  const inSdl = [astNode, ...extensionASTNodes].flatMap(
    (node) => node?.directives?.map(({ name }) => name.value) ?? [],
  );
  const { directives } = (extensions ?? {}) as LibraryExtensions;
  const inExtensions = Array.isArray(directives)
    ? directives.map((directive) => String((directive as { name?: unknown } | null)?.name))
    : Object.keys((directives as object | undefined) ?? {});
  return [...inSdl, ...inExtensions].map((name) => name.split("__").at(-1) ?? name);
}

/** The names of the settings in an object that are set. */
const settingsIn = (holder: object | undefined): string[] =>
  Object.entries(holder ?? {}).flatMap(([name, value]) =>
    value === undefined || value === null || value === false ? [] : [name],
  );

/** Returns the coordinates of the fields that have `@Authorized`. */
function restrictedByTypeGraphQL(schema: GraphQLSchema): ReadonlySet<string> {
  const storage = (globalThis as { TypeGraphQLMetadataStorage?: TypeGraphQLStorage }).TypeGraphQLMetadataStorage;
  const query = schema.getQueryType()?.name ?? "Query";
  const { queries, objectTypes = [], interfaceTypes = [] } = storage ?? {};
  const types: readonly WithFields[] = [{ name: query, fields: queries }, ...objectTypes, ...interfaceTypes];
  return new Set(
    types.flatMap(({ name, fields = [] }) =>
      fields.flatMap(({ schemaName, roles }) => (roles === undefined ? [] : [`${name}.${schemaName}`])),
    ),
  );
}
