import { type Clock, within } from "graphql-cached/store";
import type { OutboxQueries, OutboxRow, UnwatchedRow } from "./outbox-queries.js";

/**
 * The position of a consumer in the outbox, stored in the database. One process at a time leads: it
 * reads and advances. Two may believe that they do, after a pause of one of them; then only one of
 * them can advance, and what the other has invalidated is invalidated again.
 *
 * Pages of a large transaction alternate with pages of those that end meanwhile, so that it delays
 * none of them.
 */
export class OutboxPosition {
  readonly #database: OutboxDatabase;
  readonly #queries: OutboxQueries;
  readonly #clock: Clock;
  readonly #settings: PositionSettings;
  /**
   * What is read page by page: first what the position in the database says, then the first pages
   * of later snapshots. It is in memory only, so what was read ahead is invalidated again after a
   * crash.
   */
  #ranges: ReadRange[] = [];
  /** The position that the ranges follow. */
  #revision: string | undefined;
  #isAheadNext = false;

  constructor(database: OutboxDatabase, queries: OutboxQueries, clock: Clock, settings: PositionSettings) {
    this.#database = database;
    this.#queries = queries;
    this.#clock = clock;
    this.#settings = settings;
  }

  /**
   * Takes the lead, or keeps it for another `leaseMs`. Resolves to undefined if this process leads,
   * and otherwise to how long another one has the lease.
   */
  async lead(): Promise<number | undefined> {
    const { consumer, leader, leaseMs } = this.#settings;
    const [row] = (await this.#run(this.#queries.lead, [consumer, leader, leaseMs])) as { readonly ms: number }[];
    if (row?.ms === 0) return undefined;
    return row?.ms ?? leaseMs;
  }

  /**
   * Resolves to the tags after the position, or to undefined if another process leads. Rejects once
   * if the database is not the one that the position was made in, and begins anew.
   */
  read(): Promise<OutboxPage | undefined> {
    const last = this.#isAheadNext ? this.#ranges.at(-1) : undefined;
    this.#isAheadNext = last === undefined;
    return last === undefined ? this.#readNext() : this.#readAhead(last);
  }

  async #readNext(): Promise<OutboxPage | undefined> {
    const { consumer, leader, pageSize } = this.#settings;
    const rows = (await this.#run(this.#queries.read, [consumer, leader, pageSize])) as OutboxRow[];
    const [first] = rows;
    if (first === undefined) return undefined;
    if (first.revision !== this.#revision) this.#ranges = [];
    if (first.ahead) {
      await this.#run(this.#queries.reset, [consumer, leader, first.revision]);
      throw new Error(
        `the position of the outbox consumer "${consumer}" is ahead of the database's transactions, so the database was restored from a dump. ` +
          "The consumer begins anew; changes between the dump and now are not in the outbox, so change `prefix` or `version` of the cache to drop its values",
      );
    }
    const tags = tagsOf(rows);
    const isFull = rows.length >= pageSize && tags.length > 0;
    return {
      tags,
      hasMore: isFull || first.continues,
      // Without rows there is nothing to store, unless earlier pages end here.
      advance: async () =>
        (tags.length === 0 && !first.continues) || this.#advance(first, isFull ? rows.at(-1) : undefined),
    };
  }

  /** Reads a page of the transactions that have ended after the last range was begun. */
  async #readAhead(range: ReadRange): Promise<OutboxPage | undefined> {
    const { consumer, leader, pageSize } = this.#settings;
    const values = [consumer, leader, pageSize, range.end];
    const rows = (await this.#run(this.#queries.readAhead, values)) as OutboxRow[];
    const [first] = rows;
    if (first === undefined) return undefined;
    if (first.revision !== this.#revision) return this.#readNext();
    const { snapshot } = first;
    const tags = tagsOf(rows);
    return {
      tags,
      hasMore: true,
      advance: async () => {
        if (tags.length > 0 && rows.length >= pageSize)
          this.#ranges.push({ snapshot, last: rows.at(-1), end: snapshot });
        else range.end = snapshot;
        return true;
      },
    };
  }

  async #advance({ revision, snapshot }: OutboxRow, last: OutboxRow | undefined): Promise<boolean> {
    const { consumer, leader } = this.#settings;
    const [current = { snapshot, last: undefined, end: snapshot }, ...others] = this.#ranges;
    const [next] = others;
    const values = [consumer, leader, revision];
    const rows =
      last === undefined
        ? await this.#run(this.#queries.advance, [
            ...values,
            current.end,
            next?.snapshot ?? null,
            next?.last?.xid ?? null,
            next?.last?.digest ?? null,
          ])
        : await this.#run(this.#queries.advanceToRow, [...values, snapshot, last.xid, last.digest]);
    const [advanced] = rows as { readonly revision: string }[];
    this.#ranges = last === undefined ? others : [current, ...others];
    this.#revision = advanced?.revision;
    return advanced !== undefined;
  }

  /** Resolves to the watched tables whose changes are not all in the outbox. */
  async check(): Promise<readonly UnwatchedRow[]> {
    return (await this.#run(this.#queries.check, [])) as UnwatchedRow[];
  }

  /** Removes rows that every consumer has seen. Resolves to whether there may be more of them. */
  async clean(): Promise<boolean> {
    const [row] = (await this.#run(this.#queries.clean, [CLEANED_ROWS])) as { readonly removed: number }[];
    return (row?.removed ?? 0) >= CLEANED_ROWS;
  }

  /** Leaves the lead to another process at once. */
  async resign(): Promise<void> {
    const { consumer, leader } = this.#settings;
    await this.#run(this.#queries.resign, [consumer, leader]);
  }

  async #run(text: string, values: unknown[]): Promise<readonly unknown[]> {
    const { rows } = await within(this.#clock, this.#database.query(text, values), {
      ms: STATEMENT_MS,
      otherwise: () => Promise.reject(new Error(`the database did not reply within ${STATEMENT_MS} ms`)),
    });
    return rows;
  }
}

/** What runs statements: a `Pool` of pg, PGlite, or anything with the same method. */
export interface OutboxDatabase {
  query(text: string, values: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

/** How long a statement may take before it counts as failed. */
const STATEMENT_MS = 10_000;
const CLEANED_ROWS = 10_000;

/** A page of tags whose invalidation is due, and where its end is. */
export interface OutboxPage {
  readonly tags: readonly string[];
  /** Whether there may be more to read at once. */
  readonly hasMore: boolean;
  /**
   * Makes the end of the page the position. Resolves to false if another consumer leads meanwhile.
   */
  advance(): Promise<boolean>;
}

/** Some of the transactions that a snapshot shows, which do not fit on a page. */
interface ReadRange {
  readonly snapshot: string;
  /** The last row that was read, unless the position in the database says it. */
  readonly last: OutboxRow | undefined;
  /** A later snapshot. The transactions that only it shows have been invalidated as well. */
  end: string;
}

interface PositionSettings {
  readonly consumer: string;
  readonly leader: string;
  readonly leaseMs: number;
  readonly pageSize: number;
}

/** One row without a tag stands for none. */
const tagsOf = (rows: readonly OutboxRow[]): string[] => [...new Set(rows.flatMap(({ tag }) => tag ?? []))];
