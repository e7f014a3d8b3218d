import { inOneLine, messageOf } from "../../core/base/errors.js";
import type { Logger } from "../../core/telemetry/log-listener.js";

/** Codes of PostgreSQL for a table and for a schema that does not exist. */
const MISSING = ["42P01", "3F000"];

/** Reports failures of one kind: all of them to `onError`, and the first of a row and its end to the logger. */
export class FailureReport {
  readonly #subject: string;
  readonly #logger: Logger;
  readonly #onError: ((error: unknown) => void) | undefined;
  #isFailing = false;

  constructor(subject: string, logger: Logger, onError: ((error: unknown) => void) | undefined) {
    this.#subject = subject;
    this.#logger = logger;
    this.#onError = onError;
  }

  failed(error: unknown): void {
    this.#tell(error);
    if (this.#isFailing) return;
    this.#isFailing = true;
    const isMissing = MISSING.includes((error as { readonly code?: string } | null | undefined)?.code ?? "");
    const remedy = isMissing ? "; run the SQL of outboxSql() in a migration" : "";
    this.#logger.warn(
      `graphql-cached: ${this.#subject} failed and is tried again: ${inOneLine(messageOf(error))}${remedy}`,
    );
  }

  /** Reports a mistake that is not a failure. */
  warn(error: Error): void {
    this.#tell(error);
    this.#logger.warn(`graphql-cached: ${this.#subject}: ${error.message}`);
  }

  recovered(): void {
    if (!this.#isFailing) return;
    this.#isFailing = false;
    this.#logger.info(`graphql-cached: ${this.#subject} works again`);
  }

  #tell(error: unknown): void {
    try {
      this.#onError?.(error);
    } catch {
      // Errors of the callback are its own responsibility.
    }
  }
}
