/** Repeating what fails: how long to wait, and what is said of it. */
import type { CacheExtension } from "graphql-cached";
import { inOneLine, messageOf, type Random } from "graphql-cached/store";

type Logger = CacheExtension["logger"];

const FIRST_MS = 100;
const MAX_MS = 5_000;

/** Codes of PostgreSQL for a table and for a schema that does not exist. */
const MISSING = ["42P01", "3F000"];

/**
 * Something that is tried again. All failures are told to `onError`, and the first of a row and its
 * end to the logger.
 */
export class Retrying {
  readonly #subject: string;
  readonly #logger: Logger;
  readonly #onError: ((error: unknown) => void) | undefined;
  readonly #random: Random;
  #nextMs = FIRST_MS;
  #isFailing = false;

  constructor(subject: string, logger: Logger, onError: ((error: unknown) => void) | undefined, random: Random) {
    this.#subject = subject;
    this.#logger = logger;
    this.#onError = onError;
    this.#random = random;
  }

  /** Returns how long to wait: doubled each time, and randomly shortened by up to half. */
  failed(error: unknown): number {
    this.#tell(error);
    const ms = this.#nextMs * (1 - this.#random() / 2);
    this.#nextMs = Math.min(this.#nextMs * 2, MAX_MS);
    if (this.#isFailing) return ms;
    this.#isFailing = true;
    const isMissing = MISSING.includes((error as { readonly code?: string } | null | undefined)?.code ?? "");
    const remedy = isMissing ? "; run the SQL of outboxSql() in a migration" : "";
    this.#logger.warn(
      `graphql-cached: ${this.#subject} failed and is tried again: ${inOneLine(messageOf(error))}${remedy}`,
    );
    return ms;
  }

  succeeded(): void {
    this.#nextMs = FIRST_MS;
    if (this.#isFailing) this.#logger.info(`graphql-cached: ${this.#subject} works again`);
    this.#isFailing = false;
  }

  /** Reports a mistake that is not a failure. */
  warn(error: Error): void {
    this.#tell(error);
    this.#logger.warn(`graphql-cached: ${this.#subject}: ${error.message}`);
  }

  #tell(error: unknown): void {
    // Errors of the callback are its own responsibility, also if it is asynchronous.
    const ignore = (): void => undefined;
    try {
      Promise.resolve(this.#onError?.(error)).catch(ignore);
    } catch {
      ignore();
    }
  }
}
