import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { codegen } from "@graphql-codegen/core";
import * as typescript from "@graphql-codegen/typescript";
import * as typescriptResolvers from "@graphql-codegen/typescript-resolvers";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse } from "graphql";
import { cachedTypeDefs, inspectionTypeDefs } from "graphql-cached";
import { afterAll, expect, it } from "vitest";
import { ROOT } from "../project/source.js";

/** Inside the repository, so that packages resolve. */
const folder = join(ROOT, "node_modules/.cache", `graphql-cached-types-${process.pid}`);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const typeDefs = /* GraphQL */ `
  type Movie @cached(maxAge: 60) { id: ID! title: String! stars: Float @cached(maxAge: 9, tags: ["Movie:{$source.id}"]) }
  type Query { top(n: Int! = 10): [Movie!]! @cached(maxAge: 60, staleWhileRevalidate: 300) me: String @cached(maxAge: 9, scope: PRIVATE) }
  type Mutation { rate(movie: ID!, stars: Int!): Movie @invalidates(tags: ["Movie:{$args.movie}"]) @invalidates(tags: ["Ratings"]) }
`;

async function generateTypes(): Promise<string> {
  const document = parse([cachedTypeDefs, inspectionTypeDefs, typeDefs].join("\n"));
  const schemaAst = makeExecutableSchema({ typeDefs: document });
  return codegen({
    filename: "types.ts",
    schema: parse("type Query { a: Int }"),
    schemaAst,
    documents: [],
    config: { useTypeImports: true, contextType: "./context.js#Context", emitLegacyCommonJSImports: false },
    plugins: [{ typescript: {} }, { resolvers: {} }],
    pluginMap: { typescript, resolvers: typescriptResolvers },
  });
}

const PROGRAM = `
import { makeExecutableSchema } from "@graphql-tools/schema";
import { applyCached, cachedTypeDefs, createCache, inspectionResolvers, inspectionTypeDefs } from "graphql-cached";
import type { Context } from "./context.js";
import type { CachedDirectiveArgs, CachedScope, InvalidatesDirectiveArgs, Resolvers } from "./types.js";

const resolvers: Resolvers = {
  Query: { top: (_source, { n }, { userId }) => [{ id: String(n), title: userId }], me: (_source, _args, { userId }) => userId },
  Movie: { stars: ({ id }) => Number(id) },
  Mutation: { rate: (_source, { movie, stars }) => ({ id: movie, title: "x".repeat(stars) }) },
};
const cache = createCache<Context>({ defaultScope: "PUBLIC", identify: ({ userId }) => userId });
export const schema = applyCached(
  makeExecutableSchema<Context>({
    typeDefs: [cachedTypeDefs, inspectionTypeDefs],
    resolvers: [resolvers, inspectionResolvers(cache, { allow: () => true })],
  }),
  cache,
);
export const directiveArgs: CachedDirectiveArgs = { maxAge: 9, key: ["$args"], scope: "PRIVATE" as CachedScope };
export const invalidated: InvalidatesDirectiveArgs = { tags: ["T"] };
// @ts-expect-error: a movie has a title
export const untitled: Resolvers = { Query: { top: () => [{ id: "1" }] } };
// @ts-expect-error: maxAge is a number of seconds
export const textualMaxAge: CachedDirectiveArgs = { maxAge: "1 min" };
`;

it("compiles resolver types that graphql-codegen generates for a schema with @cached and @invalidates", async () => {
  mkdirSync(folder, { recursive: true });
  const files: Record<string, string> = {
    "types.ts": await generateTypes(),
    "context.ts": "export interface Context { readonly userId: string }",
    "program.ts": PROGRAM,
    "package.json": JSON.stringify({ type: "module" }),
    "tsconfig.json": JSON.stringify({
      extends: join(ROOT, "tsconfig.json"),
      // The settings of a typical user project, without this repository's additions to `strict`.
      compilerOptions: {
        noUnusedLocals: false,
        exactOptionalPropertyTypes: false,
        typeRoots: [join(ROOT, "node_modules/@types")],
      },
      include: ["*.ts"],
    }),
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const { stdout, status } = spawnSync(join(ROOT, "node_modules/.bin/tsc"), ["-p", folder, "--noEmit"], {
    encoding: "utf8",
  });
  expect(stdout).toBe("");
  expect(status).toBe(0);
}, 60_000);
