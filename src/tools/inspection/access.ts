import { GraphQLError, GraphQLScalarType, valueFromASTUntyped } from "graphql";
import { CachedError, describeSetting, inOneLine, messageOf, optionInvalid } from "../../core/base/errors.js";
import { checkOptionNames } from "../../core/base/option-names.js";
import type { Logger } from "../../core/telemetry/log-listener.js";

/**
 * Returns the option `allow` of the resolvers that `caller` returns. The first exception of it is logged: it denies access.
 * Throws `CACHED_OPTION_INVALID` if it is missing: there is no default.
 */
export function checkedAllow(options: unknown, caller: string, logger: Logger): Allow {
  if (typeof options === "object" && options !== null) checkOptionNames(options, caller, ["allow"]);
  const { allow } = (options ?? {}) as { readonly allow?: unknown };
  if (typeof allow !== "function")
    throw optionInvalid(
      `${caller}: \`allow\`: expected a function that returns true or false for a context, got ${describeSetting(allow)}`,
    );
  let isReported = false;
  return async (context) => {
    try {
      return await (allow as Allow)(context);
    } catch (error) {
      if (!isReported)
        logger.warn(`graphql-cached: ${caller}: \`allow\` threw, which denies access: ${inOneLine(messageOf(error))}`);
      isReported = true;
      throw error;
    }
  };
}

export type Allow = (context: never) => unknown;

/** Whether `allow` returns exactly true for this context. Never rejects. */
export async function isAllowed(allow: Allow, context: unknown): Promise<boolean> {
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
