/** The statements of a consumer. Each is one statement, so that a pool or PGlite can run them. */
export type OutboxQueries = ReturnType<typeof outboxQueries>;

/** One row of `read`. The names are single lower-case words, which no client rewrites. */
export interface OutboxRow {
  readonly revision: string;
  readonly snapshot: string;
  /** Whether earlier pages of the snapshot have been invalidated. */
  readonly continues: boolean;
  /** Whether the position is ahead of the database's transactions. */
  readonly ahead: boolean;
  readonly xid: string | null;
  readonly digest: string | null;
  readonly tag: string | null;
}

export interface UnwatchedRow {
  readonly name: string;
  readonly problem: "disabled" | "missing";
}

/**
 * Returns the statements for an outbox in `schema`, which is a plain name.
 *
 * `read` takes the rows whose transactions are visible in a snapshot and were not in the one
 * before, whatever the order of their ids. The rows and `pg_current_snapshot()` come from the same
 * snapshot, that of the statement. Later pages use the snapshot of the first, so that what they
 * have to read does not change any more; `readAhead` is for the transactions that end meanwhile.
 */
export function outboxQueries(schema: string) {
  const [outbox, consumers] = [`"${schema}".outbox`, `"${schema}".consumers`];
  const leaseEnd = "clock_timestamp() + $3::float8 * interval '1 millisecond'";
  const snapshot = "coalesce(c.reading, pg_current_snapshot())";
  const advanced =
    "revision = revision + 1 WHERE name = $1 AND leader = $2 AND revision = $3::bigint RETURNING revision::text AS revision";
  const pageOf = (seen: string, visible: string, afterRow: string): string => `
      LEFT JOIN LATERAL (
        SELECT o.transaction_id::text AS xid, encode(o.digest, 'hex') AS digest, o.tag FROM ${outbox} o
        WHERE (o.transaction_id, o.digest) > ${afterRow}
          AND NOT pg_visible_in_snapshot(o.transaction_id, ${seen})
          AND pg_visible_in_snapshot(o.transaction_id, ${visible})
        ORDER BY o.transaction_id, o.digest LIMIT $3::int
      ) page ON true
      WHERE c.name = $1 AND c.leader = $2`;
  return {
    // Takes or renews the lease. A row with 0: the process leads from now on; with more: the
    // milliseconds that the lease of another process lasts; none: that one has just taken it.
    // Values: name, leader, milliseconds of the lease.
    lead: `
      WITH created AS (
        INSERT INTO ${consumers} (name, leader, leads_until) VALUES ($1, $2, ${leaseEnd})
        ON CONFLICT (name) DO NOTHING RETURNING name
      ), taken AS (
        UPDATE ${consumers} SET leader = $2, leads_until = ${leaseEnd}
        WHERE name = $1 AND (leader = $2 OR leads_until <= clock_timestamp()) RETURNING name
      ), led AS (
        SELECT name FROM created UNION ALL SELECT name FROM taken
      )
      SELECT 0::float8 AS ms FROM led UNION ALL
      SELECT extract(epoch FROM greatest(leads_until, clock_timestamp()) - clock_timestamp())::float8 * 1000
      FROM ${consumers} WHERE name = $1 AND leads_until > clock_timestamp() AND NOT EXISTS (SELECT FROM led)`,
    // The next page of tags, or one row without a tag if there is none, or nothing if another
    // process leads. Values: name, leader, size of the page.
    read: `
      SELECT c.revision::text AS revision, ${snapshot}::text AS snapshot, c.reading IS NOT NULL AS continues,
        pg_snapshot_xmax(c.seen) > pg_snapshot_xmax(pg_current_snapshot()) AS ahead, page.xid, page.digest, page.tag
      FROM ${consumers} c ${pageOf(
        "c.seen",
        snapshot,
        "(coalesce(c.after_transaction_id, pg_snapshot_xmin(c.seen)), coalesce(c.after_digest, ''))",
      )}`,
    // The same for the transactions that were not visible in a snapshot. Values: the same, the
    // snapshot.
    readAhead: `
      SELECT c.revision::text AS revision, pg_current_snapshot()::text AS snapshot, page.xid, page.digest, page.tag
      FROM ${consumers} c ${pageOf("$4::pg_snapshot", "pg_current_snapshot()", "(pg_snapshot_xmin($4::pg_snapshot), ''::bytea)")}`,
    // Advances within the snapshot that is read. Returns the new revision unless another process
    // has advanced meanwhile. Values: name, leader, revision, snapshot, transaction id and digest
    // of the last row.
    advanceToRow: `
      UPDATE ${consumers} SET reading = $4::pg_snapshot, after_transaction_id = $5::xid8,
        after_digest = decode($6, 'hex'), ${advanced}`,
    // Advances to a snapshot, and begins to read the next one if there is one. Values: name,
    // leader, revision, snapshot; the next snapshot, transaction id and digest of the last row that
    // was read of it, or null.
    advance: `
      UPDATE ${consumers} SET seen = $4::pg_snapshot, reading = $5::pg_snapshot, after_transaction_id = $6::xid8,
        after_digest = decode($7, 'hex'), ${advanced}`,
    // Begins anew, for a position of another database. Values: name, leader, revision.
    reset: `
      UPDATE ${consumers} SET seen = DEFAULT, reading = NULL, after_transaction_id = NULL, after_digest = NULL,
        ${advanced}`,
    // Removes up to a number of rows that every consumer has seen, and returns how many. Does not
    // look at rows that the last of the consumers cannot have seen: there may be millions. Value:
    // the number.
    clean: `
      WITH removed AS (
        DELETE FROM ${outbox} WHERE ctid = ANY (ARRAY(
          SELECT o.ctid FROM ${outbox} o
          WHERE o.transaction_id < (SELECT pg_snapshot_xmax(c.seen) FROM ${consumers} c ORDER BY 1 LIMIT 1)
            AND NOT EXISTS (SELECT FROM ${consumers} c WHERE NOT pg_visible_in_snapshot(o.transaction_id, c.seen))
          ORDER BY o.transaction_id LIMIT $1::int
        )) RETURNING 1
      )
      SELECT count(*)::int AS removed FROM removed`,
    // The tables that were given to `watch_table` and whose changes are not all written. They are
    // found by name, since another table may have taken it.
    check: `
      WITH handlers AS (
        SELECT oid, obj_description(oid, 'pg_proc') AS name FROM pg_catalog.pg_proc
        WHERE pronamespace = '"${schema}"'::regnamespace AND starts_with(proname, 'on_change_')
      ), triggers AS (
        SELECT tgrelid, tgenabled FROM pg_catalog.pg_trigger WHERE tgfoid IN (SELECT oid FROM handlers)
      )
      SELECT DISTINCT h.name, 'missing' AS problem
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        JOIN handlers h ON h.name = format('%I.%I', n.nspname, c.relname)
      WHERE (SELECT count(*) FROM triggers t WHERE t.tgrelid = c.oid) < 4
      UNION SELECT tgrelid::regclass::text, 'disabled' FROM triggers WHERE tgenabled NOT IN ('O', 'A')`,
    // Ends the lease. Values: name, leader.
    resign: `UPDATE ${consumers} SET leads_until = '-infinity' WHERE name = $1 AND leader = $2`,
  };
}
