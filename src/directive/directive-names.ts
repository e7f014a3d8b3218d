import { getDirective } from "@graphql-tools/utils";
import type { ASTNode, DirectiveNode, GraphQLSchema } from "graphql";
import { CachedError, describeSetting } from "../errors.js";

/** What the directives are called in a schema that has other plans for their names. */
export interface DirectiveNames {
  /** What `@cached` is called. */
  readonly directive?: string;
  /** What `@invalidates` is called. */
  readonly invalidates?: string;
}

const DEFAULTS: Required<DirectiveNames> = { directive: "cached", invalidates: "invalidates" };

/** Errors: `CACHED_OPTION_INVALID`, one for all mistakes; `where` says whose they are. */
export function resolveNames(given: DirectiveNames | undefined, where: string): Required<DirectiveNames> {
  const mistakes: string[] = [];
  const names = given ?? {};
  if (typeof names !== "object") mistakes.push(`an object was expected, ${describeSetting(names)} came`);
  for (const [option, name] of Object.entries(names)) {
    if (!Object.hasOwn(DEFAULTS, option))
      mistakes.push(
        `\`${option}\` is not an option; there are ${Object.keys(DEFAULTS).join(", ")}, the names of @cached and @invalidates`,
      );
    else if (name !== undefined && (typeof name !== "string" || !/^(?!__)[A-Za-z_][A-Za-z0-9_]*$/.test(name)))
      mistakes.push(`\`${option}\` must be a GraphQL name without the @, ${describeSetting(name)} came`);
  }
  const { directive = DEFAULTS.directive, invalidates = DEFAULTS.invalidates } = names;
  if (directive === invalidates) mistakes.push("`directive` and `invalidates` must be two names");
  if (mistakes.length > 0) throw new CachedError("CACHED_OPTION_INVALID", `${where}: ${mistakes.join("; ")}`);
  return { directive, invalidates };
}

/** `sdl` with the two directives called otherwise; their enums keep their names. */
export function renamed(sdl: string, { directive, invalidates }: Required<DirectiveNames>): string {
  return sdl
    .replace(`directive @${DEFAULTS.directive}(`, `directive @${directive}(`)
    .replace(`directive @${DEFAULTS.invalidates}(`, `directive @${invalidates}(`);
}

/** What a field or type is made of, as far as directives go. */
export interface Annotated {
  readonly astNode?: (ASTNode & { readonly directives?: readonly DirectiveNode[] }) | null | undefined;
  readonly extensionASTNodes?: readonly (ASTNode & { readonly directives?: readonly DirectiveNode[] })[];
  readonly extensions?: Readonly<Record<string, unknown>>;
}

/**
 * The arguments of each `@name` at one place, from the SDL or from `extensions.directives`.
 * Most places of a schema say nothing, and are passed over at once: `getDirective` reads every directive that is there to find one.
 * Errors: graphql's own, where an argument cannot be read.
 */
export function directivesAt(schema: GraphQLSchema, at: Annotated, name: string): readonly Record<string, unknown>[] {
  const isSaid = [at.astNode, ...(at.extensionASTNodes ?? [])].some((node) =>
    node?.directives?.some((directive) => directive.name.value === name),
  );
  const known = at.extensions?.directives as Readonly<Record<string, unknown>> | undefined;
  if (!isSaid && known?.[name] === undefined) return [];
  return getDirective(schema, at as Parameters<typeof getDirective>[1], name) ?? [];
}
