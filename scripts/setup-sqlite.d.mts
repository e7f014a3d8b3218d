export function setupSqlite(wanted?: string): string;
