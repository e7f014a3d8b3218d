/**
 * Writes `src/generated/schema.ts` from `schema/*.graphql`: the types of the directives and of the inspection query, and the SDL itself
 * as constants, so that nothing is read from disk at run time.
 *
 *   npm run codegen          writes the file
 *   npm run codegen:check    fails if the file is not what would be written
 */
import { readFileSync, writeFileSync } from "node:fs";
import { codegen } from "@graphql-codegen/core";
import * as typescript from "@graphql-codegen/typescript";
import * as resolvers from "@graphql-codegen/typescript-resolvers";
import { buildASTSchema, concatAST, parse } from "graphql";

const TARGET = new URL("./src/generated/schema.ts", import.meta.url);
const sdl = (name: string): string => readFileSync(new URL(`./schema/${name}.graphql`, import.meta.url), "utf8");

async function generate(): Promise<string> {
  const cached = sdl("cached");
  const inspection = sdl("inspection");
  // The inspection file extends the user's Query type; alone it needs one to extend.
  const document = concatAST([parse("type Query"), parse(cached), parse(inspection)]);
  const types = await codegen({
    filename: "schema.ts",
    schema: document,
    schemaAst: buildASTSchema(document, { assumeValidSDL: true }),
    documents: [],
    config: {
      enumType: "string-literal",
      enumsAsTypes: true,
      useTypeImports: true,
      immutableTypes: true,
      defaultScalarType: "unknown",
      scalars: { CacheArguments: "Readonly<Record<string, unknown>>" },
      emitLegacyCommonJSImports: false,
    },
    plugins: [{ typescript: {} }, { resolvers: {} }],
    pluginMap: { typescript, resolvers },
  });
  return [
    "// Made by `npm run codegen` from schema/*.graphql. Edit those files, not this one.",
    types.trim(),
    `export const CACHED_SDL: string = ${JSON.stringify(cached)};`,
    `export const INSPECTION_SDL: string = ${JSON.stringify(inspection)};`,
    "",
  ].join("\n");
}

const wanted = await generate();
if (!process.argv.includes("--check")) {
  writeFileSync(TARGET, wanted);
} else if (readFileSync(TARGET, "utf8") !== wanted) {
  console.error(
    "src/generated/schema.ts is not what schema/*.graphql makes: run `npm run codegen` and commit the result",
  );
  process.exitCode = 1;
}
