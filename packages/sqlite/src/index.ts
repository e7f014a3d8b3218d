/** The entry point `@graphql-cached/sqlite`. */
export type { SqliteDatabase, SqliteStatement } from "./connection.js";
export { type SqliteStoreOptions, sqliteStore } from "./sqlite-store.js";
