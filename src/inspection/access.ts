import { GraphQLError, GraphQLScalarType, valueFromASTUntyped } from "graphql";
import { CachedError, describeSetting } from "../errors.js";

/**
 * Returns the option `allow` of the resolvers that `caller` returns.
 * Throws `CACHED_OPTION_INVALID` if it is missing: there is no default.
 */
export function checkedAllow(options: unknown, caller: string): (context: never) => unknown {
  const { allow } = (options ?? {}) as { readonly allow?: unknown };
  if (typeof allow === "function") return allow as (context: never) => unknown;
  throw new CachedError(
    "CACHED_OPTION_INVALID",
    `${caller}: \`allow\`: expected a function that returns true or false for a context, got ${describeSetting(allow)}`,
  );
}

/** Whether `allow` returns exactly true for this context. Never rejects. */
export async function isAllowed(allow: (context: never) => unknown, context: unknown): Promise<boolean> {
  try {
    return (await allow(context as never)) === true;
  } catch {
    return false;
  }
}

/** Servers send the messages and codes of GraphQL errors to clients, and may mask those of others. */
export function withCode(error: unknown): unknown {
  if (!(error instanceof CachedError)) return error;
  const { message, code } = error;
  return new GraphQLError(message, { originalError: error, extensions: { code } });
}

/** A scalar that takes any value, as it is. */
export const untypedScalar = (name: string): GraphQLScalarType =>
  new GraphQLScalarType({
    name,
    parseValue: (value) => value,
    parseLiteral: (node, variables) => valueFromASTUntyped(node, variables),
  });
