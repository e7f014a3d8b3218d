import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type DocumentNode, type GraphQLSchema, isSchema, Kind, print } from "graphql";
import { describeSetting, messageOf } from "../../core/base/errors.js";
import { readTags } from "./document-loaders.js";
import type { SchemaFile } from "./schema-document.js";
import { CliError, printable } from "./terminal.js";

/**
 * Runs a module and returns the schema or the type definitions that it exports. If it exports neither, or Node.js does not run
 * such files, returns the type definitions in its templates. Throws `CliError` if there are none, and if it fails.
 */
export async function readSchemaModule(path: string): Promise<GraphQLSchema | readonly SchemaFile[]> {
  const name = printable(path);
  let loaded: Readonly<Record<string, unknown>>;
  try {
    loaded = (await import(pathToFileURL(resolve(path)).href)) as Record<string, unknown>;
  } catch (error) {
    const tagged = isUnknownExtension(error) ? await taggedIn(path) : undefined;
    if (tagged !== undefined) return tagged;
    throw new CliError(`check: ${name} cannot be loaded: ${printable(loadMistake(error))}`);
  }
  const exported = await exportOf(loaded).catch((error: unknown) => {
    throw new CliError(`check: ${name}: what it exports has failed: ${printable(messageOf(error))}`);
  });
  if (exported === undefined) {
    const tagged = await taggedIn(path);
    if (tagged !== undefined) return tagged;
    const others = Object.keys(loaded).map(printable).join(", ") || "nothing";
    throw new CliError(
      `check: ${name}: expected a module that exports type definitions or a schema (as its default, \`typeDefs\` or \`schema\`), got one that exports ${others}`,
    );
  }
  const { place, value } = exported;
  if (isForeignSchema(value)) {
    const text = textOfForeign(value as GraphQLSchema);
    if (text !== undefined) return [{ name: `${name} ${place}`, text }];
    throw new CliError(
      `check: ${name}: expected a schema of the graphql that graphql-cached uses, got a schema of another copy of graphql; install one only (see \`npm ls graphql\`)`,
    );
  }
  if (isSchema(value)) return value;
  const texts = textsOf(value);
  if (texts === undefined)
    throw new CliError(
      `check: ${name}: \`${place}\`: expected SDL, a document or a GraphQLSchema, got ${printable(describeSetting(value))}`,
    );
  return texts.map((text, nth) => ({ name: `${name} ${place}${texts.length === 1 ? "" : `[${nth}]`}`, text }));
}

/** The exports that can be a schema, in the order in which they count. */
const EXPORTS = ["schema", "typeDefs", "default"] as const;

async function taggedIn(path: string): Promise<readonly SchemaFile[] | undefined> {
  const found = await readTags("check", path, "type definitions");
  return found?.length === 0 ? undefined : found;
}

const isUnknownExtension = (error: unknown): boolean =>
  (error as NodeJS.ErrnoException | undefined)?.code === "ERR_UNKNOWN_FILE_EXTENSION";

/** Returns why a module cannot be loaded. */
export const loadMistake = (error: unknown): string =>
  isUnknownExtension(error)
    ? "this Node.js runs no such file; set NODE_OPTIONS='--import tsx', with the package tsx, check the compiled module, or install @graphql-tools/code-file-loader, which reads templates with the tag gql"
    : messageOf(error);

/** Returns the first export that can be a schema. The default of a CommonJS module, and of others, can be an object of them. */
async function exportOf(
  loaded: Readonly<Record<string, unknown>>,
): Promise<{ readonly place: string; readonly value: unknown } | undefined> {
  let unusable: { readonly place: string; readonly value: unknown } | undefined;
  for (const place of EXPORTS) {
    const value: unknown = await loaded[place];
    if (value === undefined) continue;
    if (textsOf(value) !== undefined || isLikeSchema(value)) return { place, value };
    unusable ??= { place, value };
    if (place !== "default" || !isObject(value)) continue;
    const inner = await exportOf({ schema: value.schema, typeDefs: value.typeDefs });
    if (inner !== undefined) return inner;
  }
  return unusable;
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

const isLikeSchema = (value: unknown): boolean => isObject(value) && typeof value.getTypeMap === "function";

/** `isSchema` throws for one of another copy of graphql, or returns false. */
function isForeignSchema(value: unknown): boolean {
  if (!isLikeSchema(value)) return false;
  try {
    return !isSchema(value);
  } catch {
    return true;
  }
}

/** Returns the text that a schema of another copy of graphql was built from. Undefined if it was built in code. */
function textOfForeign(schema: GraphQLSchema): string | undefined {
  const definitions = [schema, ...schema.getDirectives(), ...Object.values(schema.getTypeMap())].flatMap((part) => [
    ...(part.astNode == null ? [] : [part.astNode]),
    ...("extensionASTNodes" in part ? part.extensionASTNodes : []),
  ]);
  return definitions.length === 0 ? undefined : definitions.map(print).join("\n");
}

/** Returns SDL, documents and lists of them as texts. Undefined if it is something else. */
function textsOf(value: unknown): readonly string[] | undefined {
  if (typeof value === "string") return [value];
  if (isObject(value) && value.kind === Kind.DOCUMENT) return [print(value as unknown as DocumentNode)];
  if (!Array.isArray(value)) return undefined;
  const texts = value.map(textsOf);
  return texts.some((one) => one === undefined) ? undefined : (texts as string[][]).flat();
}
