import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { buildClientSchema, type DocumentNode, type IntrospectionQuery, Kind, parse, printSchema } from "graphql";
import { messageOf } from "../../core/base/errors.js";
import type { SchemaFile } from "./schema-document.js";
import { CliError, printable } from "./terminal.js";

/** Whether a file is a module, which can have documents in it. */
export const isModule = (path: string): boolean => /\.[cm]?[jt]sx?$/.test(path);

/** What is looked for: type definitions, or operations and fragments. */
export type DocumentKind = "type definitions" | "operations";

/** What is used of a loader of @graphql-tools. */
interface Loader {
  resolveGlobs(pattern: string, options: object): Promise<readonly string[]>;
  /** Returns the documents in templates with the tag `gql`, or behind the comment GraphQL. */
  load(path: string, options: object): Promise<readonly { rawSDL?: string; document?: DocumentNode }[]>;
}

/** The packages of users that find files, by the name of the loader in them. The first also reads modules. */
const PACKAGES = {
  CodeFileLoader: "@graphql-tools/code-file-loader",
  GraphQLFileLoader: "@graphql-tools/graphql-file-loader",
};

const isDocument = (path: string): boolean => /\.(graphql|gql)s?$/.test(path);

/** Whether it is a pattern of paths, such as `src/*.graphql`. A file can have such a name as well. */
export const isGlob = (path: string): boolean => /[*?{}[\]]/.test(path) && !existsSync(path);

/** Splits paths from those with ! before them, which leave files out. */
export const withExcluded = (given: readonly string[]) => ({
  paths: given.filter((path) => !path.startsWith("!")),
  excluded: given.filter((path) => path.startsWith("!")).map((path) => path.slice(1)),
});

/** Returns what `read` resolves to, and reports errors of the file system with the path. */
export async function reading<Read>(place: string, path: string, read: () => Promise<Read>): Promise<Read> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof CliError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    const reason = code === "ENOENT" ? "there is no such file" : messageOf(error);
    throw new CliError(`${place}: ${printable(path)} cannot be read: ${reason}`);
  }
}

/**
 * Reads the documents of a kind in the files that a pattern names; `excluded` are patterns as well. Modules are not run.
 * Throws `CliError` if there are none, or the project lacks the package that finds them.
 */
export async function readGlob(
  place: string,
  pattern: string,
  kind: DocumentKind,
  excluded: readonly string[],
): Promise<readonly SchemaFile[]> {
  const loader =
    (await loaderOf("CodeFileLoader")) ?? (isDocument(pattern) ? await loaderOf("GraphQLFileLoader") : undefined);
  if (loader === undefined) throw lacking(place, pattern, isDocument(pattern) ? "GraphQLFileLoader" : "CodeFileLoader");
  const paths = await loader.resolveGlobs(pattern, { ignore: [...excluded, "**/node_modules/**"] });
  const files = await Promise.all(paths.toSorted().map((path) => readMatch(place, loader, path)));
  const found = files.flat().filter((file) => isOfKind(file, kind));
  if (found.length === 0)
    throw new CliError(
      `${place}: expected files with ${kind}, got ${printable(pattern)}, which ${paths.length === 0 ? "no file matches" : `matches ${paths.length} without any`}`,
    );
  return found;
}

/** Reads the documents of a kind in a module, without running it. Undefined if the project lacks the package for that. */
export async function readTags(
  place: string,
  path: string,
  kind: DocumentKind,
): Promise<readonly SchemaFile[] | undefined> {
  const loader = await loaderOf("CodeFileLoader");
  if (loader === undefined) return undefined;
  return (await tagsIn(place, loader, path)).filter((file) => isOfKind(file, kind));
}

/** Says which package of @graphql-tools a project needs. */
export function lacking(place: string, path: string, loader: keyof typeof PACKAGES): CliError {
  const name = PACKAGES[loader];
  const why = loader === "CodeFileLoader" ? "finds the documents in modules" : "finds the files that a pattern names";
  return new CliError(
    `${place}: ${printable(path)}: expected the package ${name} in this project, which ${why}, got none; run npm install --save-dev ${name}`,
  );
}

/** Returns the SDL of the result of an introspection query. Undefined if it is something else. */
export function introspectedSdl(text: string): string | undefined {
  try {
    const result = JSON.parse(text) as { readonly data?: IntrospectionQuery } & IntrospectionQuery;
    return printSchema(buildClientSchema(result.data ?? result));
  } catch {
    return undefined;
  }
}

async function loaderOf(name: keyof typeof PACKAGES): Promise<Loader | undefined> {
  let path: string;
  try {
    path = createRequire(join(process.cwd(), "package.json")).resolve(PACKAGES[name]);
  } catch {
    return undefined;
  }
  const loaded = (await import(pathToFileURL(path).href)) as Readonly<Record<string, new () => Loader>>;
  return new (loaded[name] as new () => Loader)();
}

async function readMatch(place: string, loader: Loader, path: string): Promise<readonly SchemaFile[]> {
  if (isModule(path)) return tagsIn(place, loader, path);
  const isJson = path.endsWith(".json");
  if (!isJson && !isDocument(path)) return [];
  const text = await readFile(path, "utf8");
  const sdl = isJson ? introspectedSdl(text) : text;
  return sdl === undefined ? [] : [{ name: nameOf(path), text: sdl }];
}

async function tagsIn(place: string, loader: Loader, path: string): Promise<readonly SchemaFile[]> {
  try {
    // Indentation is kept, so that the places in a text are those in the file.
    const found = await loader.load(path, { noRequire: true, noSilentErrors: true, pluckConfig: { skipIndent: true } });
    return found.flatMap(({ rawSDL, document }): SchemaFile[] => {
      // Where the template begins: columns are counted from 0, and before the backtick.
      const { line = 1, column = -1 } = document?.loc?.source.locationOffset ?? {};
      const before = "\n".repeat(line - 1) + " ".repeat(column + 1);
      return rawSDL === undefined ? [] : [{ name: nameOf(path), text: before + rawSDL }];
    });
  } catch (error) {
    throw new CliError(`${place}: ${nameOf(path)} cannot be read: ${printable(messageOf(error))}`);
  }
}

const nameOf = (path: string): string => printable(relative(process.cwd(), path));

/** What cannot be parsed is of every kind: it is reported with its place later. */
function isOfKind({ text }: SchemaFile, kind: DocumentKind): boolean {
  let document: DocumentNode;
  try {
    document = parse(text, { noLocation: true });
  } catch {
    return true;
  }
  const executable: readonly string[] = [Kind.OPERATION_DEFINITION, Kind.FRAGMENT_DEFINITION];
  return document.definitions.some((one) => executable.includes(one.kind) === (kind === "operations"));
}
