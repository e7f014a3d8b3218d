export function setupSqlite(wanted?: string): string;
/** Gives a project what programs with @graphql-cached/sqlite need where Node.js has no SQLite. */
export function installSqlite(project: string): void;
