/** The entry point `graphql-cached/sqlite`. */
export type { SqliteDatabase, SqliteStatement } from "./sqlite-database.js";
export { type SqliteStoreOptions, sqliteStore } from "./sqlite-store.js";
