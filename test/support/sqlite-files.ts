import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SqliteDatabase } from "@graphql-cached/sqlite";

type DatabaseClass = new (file: string) => SqliteDatabase;

/** Returns how to open a database by a module, as `scripts/setup-sqlite.mjs` names it. */
export function opensWith(module: string): (file: string) => SqliteDatabase {
  const found = createRequire(import.meta.url)(module) as DatabaseClass | { readonly DatabaseSync: DatabaseClass };
  const Database = "DatabaseSync" in found ? found.DatabaseSync : found;
  return (file) => new Database(file);
}

/** Makes a folder for the files of a store. `remove` deletes it. */
export function sqliteFolder(): { readonly path: string; readonly folder: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), "graphql-cached-sqlite-"));
  return { folder, path: join(folder, "cache.db"), remove: () => rmSync(folder, { recursive: true, force: true }) };
}
