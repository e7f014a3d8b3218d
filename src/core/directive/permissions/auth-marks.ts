import {
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isInterfaceType,
  isObjectType,
} from "graphql";
import { type Annotated, directivesOn } from "../compile/directives.js";
import type { AnyField } from "../compile/field-rule.js";

/** What directives and settings that restrict who may see something have in their names. */
const MARK = /auth(?!or(?!i))|role|permission|polic(?:y|ies)|scope/i;

/**
 * Returns why not every caller may see a field, such as "`@auth` covers it": a directive, or a
 * setting in `extensions` or in the options that Pothos and Nexus keep there, on the field, its
 * arguments, its parent type, the interfaces of that, or what the field returns, with its members
 * and interfaces; or a framework whose guards no schema shows.
 */
export function authMarkOf(schema: GraphQLSchema, parent: GraphQLObjectType, field: AnyField): string | undefined {
  const interfaces = parent.getInterfaces();
  const returned = getNamedType(field.type);
  const places: Annotated[] = [
    field,
    ...field.args,
    parent,
    ...interfaces,
    ...interfaces.flatMap((type) => type.getFields()[field.name] ?? []),
    returned,
    ...(isAbstractType(returned) ? schema.getPossibleTypes(returned) : []),
    ...(isObjectType(returned) || isInterfaceType(returned) ? returned.getInterfaces() : []),
  ];
  const name = places.flatMap(namesAt).find((name) => MARK.test(name));
  return name === undefined ? hiddenGuards() : `\`${name}\` covers it`;
}

/** What frameworks keep for the whole process. Nest has global guards as well. */
interface Frameworks {
  readonly GqlTypeMetadataStorage?: object;
  readonly TypeGraphQLMetadataStorage?: Readonly<Record<"authorizedFields" | "authorizedResolver", object[]>>;
}

function hiddenGuards(): string | undefined {
  const { GqlTypeMetadataStorage: nest, TypeGraphQLMetadataStorage: typeGraphQL } = globalThis as Frameworks;
  if (nest !== undefined) return "guards of NestJS run inside of its resolver";
  const { authorizedFields = [], authorizedResolver = [] } = typeGraphQL ?? {};
  return authorizedFields.length + authorizedResolver.length === 0
    ? undefined
    : "`@Authorized` of TypeGraphQL runs inside of its resolver";
}

interface LibraryExtensions extends Readonly<Record<string, unknown>> {
  readonly directives?: object;
  readonly pothosOptions?: object;
  readonly nexus?: { readonly config?: object };
}

function namesAt(target: Annotated): string[] {
  const { directives, ...others } = (target.extensions ?? {}) as LibraryExtensions;
  const inExtensions = Array.isArray(directives)
    ? directives.map((directive) => String((directive as { name?: unknown } | null)?.name))
    : Object.keys(directives ?? {});
  const settings = { ...others, ...others.pothosOptions, ...others.nexus?.config };
  return [
    ...[...directivesOn(target).map(({ name }) => name.value), ...inExtensions].map((name) => `@${name}`),
    ...Object.entries(settings)
      .filter(([, value]) => value !== undefined && value !== null && value !== false)
      .map(([name]) => name),
  ];
}
