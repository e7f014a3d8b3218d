import "reflect-metadata";
import { createRequire } from "node:module";
import SchemaBuilder from "@pothos/core";
import ScopeAuthPlugin from "@pothos/plugin-scope-auth";
import type { GraphQLSchema } from "graphql";

const require = createRequire(import.meta.url);
// Their ES modules would load a second copy of graphql.
const nexus = require("nexus") as typeof import("nexus");
const typeGraphQL = require("type-graphql") as typeof import("type-graphql");

/** A caller. Only admins may see what is guarded. */
export interface Caller {
  readonly userId?: string;
  readonly isAdmin?: boolean;
}

/** What a guarded field resolves to, and the policy it is cached with. */
export interface Guarded {
  readonly resolve: (parent: unknown, args: object, context: Caller) => unknown;
  readonly cached: object | undefined;
}

/** Builds a schema whose `Query.secret` only admins may see, as the documentation of a library says. */
export type BuildGuarded = (guarded: Guarded) => GraphQLSchema | Promise<GraphQLSchema>;

type PothosPlace = "field" | "withAuth" | "query type" | "interface";

/** `place`: where `authScopes` is. */
export const pothos =
  (place: PothosPlace): BuildGuarded =>
  ({ resolve, cached }) => {
    const builder = new SchemaBuilder<{ Context: Caller; AuthScopes: { admin: boolean } }>({
      plugins: [ScopeAuthPlugin],
      scopeAuth: { authScopes: async ({ isAdmin }) => ({ admin: isAdmin === true }) },
    });
    const authScopes = { admin: true };
    const extensions = cached === undefined ? {} : { cached };
    const load = resolve as () => string;
    if (place === "interface") {
      const Guarded = builder
        .interfaceRef<object>("Guarded")
        .implement({ authScopes, fields: (t) => ({ id: t.string({ resolve: () => "1" }) }) });
      const Vault = builder.objectRef<object>("Vault").implement({
        interfaces: [Guarded],
        isTypeOf: () => true,
        fields: (t) => ({
          secret: t.string({ extensions: { cached: cached && { ...cached, key: [] } }, resolve: load }),
        }),
      });
      builder.queryType({ fields: (t) => ({ vault: t.field({ type: Vault, resolve: () => ({}) }) }) });
      return builder.toSchema();
    }
    builder.queryType({
      ...(place === "query type" ? { authScopes } : {}),
      fields: (t) => ({
        secret:
          place === "withAuth"
            ? t.withAuth(authScopes).string({ extensions, resolve: load })
            : t.string({ extensions, resolve: load, ...(place === "field" ? { authScopes } : {}) }),
      }),
    });
    return builder.toSchema();
  };

export const nexusAuthorize: BuildGuarded = ({ resolve, cached }) =>
  nexus.makeSchema({
    outputs: false,
    shouldGenerateArtifacts: false,
    plugins: [nexus.fieldAuthorizePlugin()],
    types: [
      nexus.queryType({
        definition(t) {
          t.string("secret", {
            authorize: (_: unknown, __: unknown, { isAdmin }: Caller) => isAdmin === true,
            resolve: resolve as never,
            ...(cached === undefined ? {} : { extensions: { cached } }),
          } as never);
        },
      }),
    ],
  }) as GraphQLSchema;

/** The decorators are called by hand: esbuild does not emit the metadata that they read. */
export const authorized =
  (place: "method" | "class"): BuildGuarded =>
  ({ resolve, cached }) => {
    const { Authorized, Ctx, Extensions, Query, Resolver, buildSchema } = typeGraphQL;
    class Vault {
      secret(context: Caller): unknown {
        return resolve({}, {}, context);
      }
    }
    const method = [Vault.prototype, "secret", Object.getOwnPropertyDescriptor(Vault.prototype, "secret")] as const;
    Reflect.defineMetadata("design:paramtypes", [Object], Vault.prototype, "secret");
    Query(() => String)(...(method as [object, string, PropertyDescriptor]));
    Ctx()(Vault.prototype, "secret", 0);
    if (cached !== undefined) Extensions({ cached })(...(method as unknown as [object, string, never]));
    if (place === "method") Authorized("ADMIN")(...(method as unknown as [object, string, never]));
    else Authorized("ADMIN")(Vault);
    Resolver()(Vault);
    return buildSchema({
      resolvers: [Vault],
      validate: false,
      authChecker: ({ context }) => (context as Caller).isAdmin === true,
    });
  };

/** Forgets what TypeGraphQL has noted for the whole process. */
export const forgetTypeGraphQL = (): void => typeGraphQL.getMetadataStorage().clear();
