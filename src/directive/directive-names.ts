import { getDirective } from "@graphql-tools/utils";
import type { ASTNode, DirectiveNode, GraphQLSchema } from "graphql";
import { CachedError, describeSetting } from "../errors.js";

/** The names of the directives in a schema that uses the default names for something else. */
export interface DirectiveNames {
  /** The name of `@cached`. */
  readonly directive?: string;
  /** The name of `@invalidates`. */
  readonly invalidates?: string;
}

const DEFAULTS: Required<DirectiveNames> = { directive: "cached", invalidates: "invalidates" };

/**
 * Applies the defaults. Throws `CACHED_OPTION_INVALID` with all mistakes, prefixed with the
 * caller's name `where`.
 */
export function resolveNames(given: DirectiveNames | undefined, where: string): Required<DirectiveNames> {
  const mistakes: string[] = [];
  const names = given ?? {};
  if (typeof names !== "object") mistakes.push(`expected an object, got ${describeSetting(names)}`);
  for (const [option, name] of Object.entries(names)) {
    if (!Object.hasOwn(DEFAULTS, option))
      mistakes.push(
        `\`${option}\`: unknown option; expected \`directive\` or \`invalidates\`, the names of @cached and @invalidates`,
      );
    else if (name !== undefined && (typeof name !== "string" || !/^(?!__)[A-Za-z_][A-Za-z0-9_]*$/.test(name)))
      mistakes.push(`\`${option}\`: expected a GraphQL name without the @, got ${describeSetting(name)}`);
  }
  const { directive = DEFAULTS.directive, invalidates = DEFAULTS.invalidates } = names;
  if (directive === invalidates)
    mistakes.push(
      `\`invalidates\`: expected another name than \`directive\`, got ${describeSetting(invalidates)} for both`,
    );
  if (mistakes.length > 0) throw new CachedError("CACHED_OPTION_INVALID", `${where}: ${mistakes.join("; ")}`);
  return { directive, invalidates };
}

/** Renames the two directives in `sdl`. Their enum types keep their names. */
export function renameDirectives(sdl: string, { directive, invalidates }: Required<DirectiveNames>): string {
  return sdl
    .replace(`directive @${DEFAULTS.directive}(`, `directive @${directive}(`)
    .replace(`directive @${DEFAULTS.invalidates}(`, `directive @${invalidates}(`);
}

/** The parts of a field or type that can carry directives. */
export interface Annotated {
  readonly astNode?: (ASTNode & { readonly directives?: readonly DirectiveNode[] }) | null | undefined;
  readonly extensionASTNodes?: readonly (ASTNode & { readonly directives?: readonly DirectiveNode[] })[];
  readonly extensions?: Readonly<Record<string, unknown>>;
}

/**
 * Returns the arguments of each `@name` on a field or type, from the SDL or from
 * `extensions.directives`. Most fields have no such directive and return early: `getDirective`
 * would read all of their directives to find out.
 * Throws the GraphQL error if an argument is invalid.
 */
export function directivesAt(
  schema: GraphQLSchema,
  target: Annotated,
  name: string,
): readonly Record<string, unknown>[] {
  const isInSdl = [target.astNode, ...(target.extensionASTNodes ?? [])].some((node) =>
    node?.directives?.some((directive) => directive.name.value === name),
  );
  const inExtensions = target.extensions?.directives as Readonly<Record<string, unknown>> | undefined;
  if (!isInSdl && inExtensions?.[name] === undefined) return [];
  return getDirective(schema, target as Parameters<typeof getDirective>[1], name) ?? [];
}
