import { type Clock, within } from "../clock.js";
import type { OutboxQueries, OutboxRow } from "./outbox-queries.js";

/** What runs statements: a `Pool` of pg, PGlite, or anything with the same method. */
export interface OutboxDatabase {
  query(text: string, values: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

/** How long a statement may take before it counts as failed. */
const STATEMENT_MS = 10_000;
/** Rows that are removed at a time. */
const CLEANED_ROWS = 10_000;

/** A page of tags whose invalidation is due, and where its end is. */
export interface OutboxPage {
  readonly tags: readonly string[];
  /** Whether there may be more to read at once. */
  readonly hasMore: boolean;
  /** Makes the end of the page the position. Resolves to false if another consumer leads meanwhile. */
  advance(): Promise<boolean>;
}

/** Settings of `OutboxPosition`. */
export interface PositionSettings {
  /** The name that the position is stored under. */
  readonly consumer: string;
  /** The id of this process. */
  readonly leader: string;
  readonly leaseMs: number;
  readonly pageSize: number;
}

/**
 * The position of a consumer in the outbox, stored in the database. One process at a time leads: it
 * reads and advances. Two may believe that they do, after a pause of one of them; then only one of them
 * can advance, and what the other has invalidated is invalidated again.
 */
export class OutboxPosition {
  readonly #database: OutboxDatabase;
  readonly #queries: OutboxQueries;
  readonly #clock: Clock;
  readonly #settings: PositionSettings;

  constructor(database: OutboxDatabase, queries: OutboxQueries, clock: Clock, settings: PositionSettings) {
    this.#database = database;
    this.#queries = queries;
    this.#clock = clock;
    this.#settings = settings;
  }

  /** Takes the lead, or keeps it for another `leaseMs`. Resolves to false if another process has it. */
  async lead(): Promise<boolean> {
    const { consumer, leader, leaseMs } = this.#settings;
    return (await this.#run(this.#queries.lead, [consumer, leader, leaseMs])).length > 0;
  }

  /**
   * Resolves to the tags after the position, or to undefined if another process leads. Rejects once if
   * the database is not the one that the position was made in, and begins anew.
   */
  async read(): Promise<OutboxPage | undefined> {
    const { consumer, leader, pageSize } = this.#settings;
    const rows = (await this.#run(this.#queries.read, [consumer, leader, pageSize])) as OutboxRow[];
    const [first] = rows;
    if (first === undefined) return undefined;
    if (first.ahead) {
      await this.#run(this.#queries.reset, [consumer, leader, first.revision]);
      throw new Error(
        `the position of the outbox consumer "${consumer}" is ahead of the database's transactions, so the database was restored from a dump. ` +
          "The consumer begins anew; changes between the dump and now are not in the outbox, so change `prefix` or `version` of the cache to drop its values",
      );
    }
    const tags = rows.flatMap(({ tag }) => tag ?? []);
    const isFull = tags.length >= pageSize;
    return {
      tags: [...new Set(tags)],
      hasMore: isFull || first.continues,
      // Without rows there is nothing to store, unless earlier pages end here.
      advance: async () =>
        (tags.length === 0 && !first.continues) || this.#advance(first, isFull ? rows.at(-1) : undefined),
    };
  }

  async #advance({ revision, snapshot }: OutboxRow, last: OutboxRow | undefined): Promise<boolean> {
    const { consumer, leader } = this.#settings;
    const values = [consumer, leader, revision, snapshot];
    const advanced =
      last === undefined
        ? await this.#run(this.#queries.advance, values)
        : await this.#run(this.#queries.advanceToRow, [...values, last.xid, last.digest]);
    return advanced.length > 0;
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
