/** The entry point `@graphql-cached/postgres`. */
export { type Listen, listenWith, type NotificationClient } from "./listening.js";
export { invalidateFromOutbox, type OutboxConsumer, type OutboxOptions } from "./outbox-consumer.js";
export type { OutboxDatabase } from "./outbox-position.js";
export { type OutboxSqlOptions, outboxSql } from "./outbox-sql.js";
