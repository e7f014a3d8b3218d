import type { Cancel, Clock } from "../base/clock.js";
import type { ContextReads, Logger } from "./log-listener.js";

/**
 * Logs which PUBLIC fields and loaders read a property of the context that is not part of their keys: one line for each
 * property, which lists all that a request has found, or a tick if nothing tells when requests end. Later finds are
 * added in short lines.
 */
export class ContextReadLog implements ContextReads {
  readonly #logger: Logger;
  readonly #clock: Clock;
  /** Coordinates by property. */
  readonly #logged = new Map<string, Set<string>>();
  readonly #pending = new Map<string, Set<string>>();
  #count = 0;
  #knowsRequests = false;
  #isDue = false;
  #cancel: Cancel | undefined;

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  add(coordinate: string, property: string): void {
    if (this.#logged.get(property)?.has(coordinate) === true || this.#count >= MAX_LOGGED) return;
    const pending = this.#pending.get(property) ?? new Set();
    this.#pending.set(property, pending.add(coordinate));
    if (this.#isDue) return;
    this.#isDue = true;
    if (this.#knowsRequests) this.#cancel = this.#clock.after(REQUEST_MS, () => this.flush());
    else this.#clock.afterTick(() => this.flush());
  }

  /** Collects until `flush` is called from now on: an adapter does at the end of each request. */
  collectByRequest(): void {
    this.#knowsRequests = true;
  }

  /** Logs what was collected: a request has ended, or the cache is closed. */
  flush(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#isDue = false;
    for (const [property, coordinates] of this.#pending) {
      const logged = this.#logged.get(property);
      this.#logger.warn(
        `graphql-cached: ${logged === undefined ? firstLine(property, coordinates) : `\`context.${property}\` is read as well by the loads of ${list(coordinates)}`}`,
      );
      this.#logged.set(property, new Set([...(logged ?? []), ...coordinates]));
      this.#count += coordinates.size;
    }
    this.#pending.clear();
  }
}

/** How long reads are collected at most until a request ends: its fields read the same properties one after the other. */
const REQUEST_MS = 250;
/** Bounds the memory of what was logged. */
const MAX_LOGGED = 1_000;

function firstLine(property: string, coordinates: ReadonlySet<string>): string {
  const hasFields = [...coordinates].some(isField);
  const hasLoaders = [...coordinates].some((coordinate) => !isField(coordinate));
  const parts = [
    ...(hasFields ? [`add \`$context.${property}\` to the \`key\` of the field`] : []),
    ...(hasLoaders ? ["make it part of the id of the loader"] : []),
  ];
  return (
    `\`context.${property}\` is read by the loads of ${list(coordinates)}, which are PUBLIC, and is not part of their keys, so one caller may get a value made for another; ` +
    `if it is the same for every caller, list it in createCache({ privacy: { sharedContextKeys: [${JSON.stringify(property)}] } }); if not, set scope: PRIVATE, or ${parts.join(", or ")}; ` +
    "if a permission check reads it, apply permissions to the schema that applyCached returns"
  );
}

const isField = (coordinate: string): boolean => coordinate.includes(".");

const list = (coordinates: ReadonlySet<string>): string => [...coordinates].map((one) => `\`${one}\``).join(", ");
