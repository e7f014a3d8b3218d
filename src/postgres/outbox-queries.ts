/** The statements of a consumer. Each is one statement, so that a pool or PGlite can run them. */
export interface OutboxQueries {
  /** Returns a row if the process leads from now on. Values: name, leader, milliseconds of the lease. */
  readonly lead: string;
  /**
   * Returns the next page of tags, or one row without a tag if there is none, or nothing if another
   * process leads. Values: name, leader, size of the page.
   */
  readonly read: string;
  /**
   * Advances to the end of a page. Returns a row unless another process has advanced meanwhile.
   * Values: name, leader, revision, snapshot, transaction id, digest.
   */
  readonly advanceToRow: string;
  /** Advances to the end of a snapshot. The same without the last two values. */
  readonly advance: string;
  /** Begins anew, for a position of another database. Values: name, leader, revision. */
  readonly reset: string;
  /** Removes up to a number of rows that every consumer has seen, and returns how many. Value: the number. */
  readonly clean: string;
  /** Ends the lease. Values: name, leader. */
  readonly resign: string;
}

/** One row of `read`. The names are single lower-case words, which no client rewrites. */
export interface OutboxRow {
  readonly revision: string;
  /** The snapshot that is read. */
  readonly snapshot: string;
  /** Whether earlier pages of the snapshot have been invalidated. */
  readonly continues: boolean;
  /** Whether the position is ahead of the database's transactions. */
  readonly ahead: boolean;
  readonly xid: string | null;
  readonly digest: string | null;
  readonly tag: string | null;
}

/**
 * Returns the statements for an outbox in `schema`, which is a plain name.
 *
 * `read` takes the rows whose transactions are visible in a snapshot and were not in the one before,
 * whatever the order of their ids. The rows and `pg_current_snapshot()` come from the same snapshot,
 * that of the statement. Later pages use the snapshot of the first, so that what they have to read
 * does not change any more.
 */
export function outboxQueries(schema: string): OutboxQueries {
  const [outbox, consumers] = [`"${schema}".outbox`, `"${schema}".consumers`];
  const leaseEnd = "clock_timestamp() + $3::float8 * interval '1 millisecond'";
  const snapshot = "coalesce(c.reading, pg_current_snapshot())";
  const advanced = "revision = revision + 1 WHERE name = $1 AND leader = $2 AND revision = $3::bigint RETURNING name";
  return {
    lead: `
      WITH created AS (
        INSERT INTO ${consumers} (name, leader, leads_until) VALUES ($1, $2, ${leaseEnd})
        ON CONFLICT (name) DO NOTHING RETURNING name
      ), taken AS (
        UPDATE ${consumers} SET leader = $2, leads_until = ${leaseEnd}
        WHERE name = $1 AND (leader = $2 OR leads_until <= clock_timestamp()) RETURNING name
      )
      SELECT name FROM created UNION ALL SELECT name FROM taken`,
    read: `
      SELECT c.revision::text AS revision, ${snapshot}::text AS snapshot, c.reading IS NOT NULL AS continues,
        pg_snapshot_xmax(c.seen) > pg_snapshot_xmax(pg_current_snapshot()) AS ahead, page.xid, page.digest, page.tag
      FROM ${consumers} c LEFT JOIN LATERAL (
        SELECT o.transaction_id::text AS xid, encode(o.digest, 'hex') AS digest, o.tag FROM ${outbox} o
        WHERE (o.transaction_id, o.digest)
            > (coalesce(c.after_transaction_id, pg_snapshot_xmin(c.seen)), coalesce(c.after_digest, ''))
          AND NOT pg_visible_in_snapshot(o.transaction_id, c.seen)
          AND pg_visible_in_snapshot(o.transaction_id, ${snapshot})
        ORDER BY o.transaction_id, o.digest LIMIT $3::int
      ) page ON true
      WHERE c.name = $1 AND c.leader = $2`,
    advanceToRow: `
      UPDATE ${consumers} SET reading = $4::pg_snapshot, after_transaction_id = $5::xid8,
        after_digest = decode($6, 'hex'), ${advanced}`,
    advance: `
      UPDATE ${consumers} SET seen = $4::pg_snapshot, reading = NULL, after_transaction_id = NULL,
        after_digest = NULL, ${advanced}`,
    reset: `
      UPDATE ${consumers} SET seen = DEFAULT, reading = NULL, after_transaction_id = NULL, after_digest = NULL,
        ${advanced}`,
    clean: `
      WITH removed AS (
        DELETE FROM ${outbox} WHERE ctid = ANY (ARRAY(
          SELECT o.ctid FROM ${outbox} o
          WHERE NOT EXISTS (SELECT FROM ${consumers} c WHERE NOT pg_visible_in_snapshot(o.transaction_id, c.seen))
          LIMIT $1::int
        )) RETURNING 1
      )
      SELECT count(*)::int AS removed FROM removed`,
    resign: `UPDATE ${consumers} SET leads_until = '-infinity' WHERE name = $1 AND leader = $2`,
  };
}
