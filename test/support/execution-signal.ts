import { MapperKind, mapSchema } from "@graphql-tools/utils";
import { defaultFieldResolver, type ExecutionResult, type GraphQLSchema, graphql } from "graphql";

/** Executes with a signal of the execution's own, as graphql 17 does. */
export function executeWithSignal(
  schema: GraphQLSchema,
  source: string,
  contextValue: object,
  signal: AbortSignal,
): Promise<ExecutionResult> {
  const withSignal = mapSchema(schema, {
    [MapperKind.OBJECT_FIELD]: (field) => {
      const resolve = field.resolve ?? defaultFieldResolver;
      return {
        ...field,
        resolve: (parent: unknown, args: Record<string, unknown>, context: unknown, info) =>
          resolve(parent, args, context, Object.assign({}, info, { getAbortSignal: () => signal })),
      };
    },
  });
  return graphql({ schema: withSignal, source, contextValue });
}
