import type { Cancel, Clock } from "../base/clock.js";
import { getOrMake } from "../base/multimap.js";
import type { Logger } from "./log-listener.js";

/**
 * Logs which PUBLIC fields and loaders read context properties outside of their keys: one line for
 * each property, with all that a request has found, or a tick if nothing tells when requests end.
 * Later finds are added in short lines. `ContextWatch` finds each once, and at most 1,000.
 */
export class ContextReadLog {
  readonly #logged = new Set<string>();
  readonly #pending = new Map<string, string[]>();
  #knowsRequests = false;
  #cancel: Cancel | undefined;

  constructor(
    private readonly logger: Logger,
    private readonly clock: Clock,
  ) {}

  add(coordinate: string, property: string): void {
    if (this.#pending.size === 0) {
      if (this.#knowsRequests) this.#cancel = this.clock.after(REQUEST_MS, () => this.flush());
      else this.clock.afterTick(() => this.flush());
    }
    getOrMake(this.#pending, property, () => []).push(coordinate);
  }

  /** For adapters, which call `flush` at the end of each request. */
  collectByRequest(): void {
    this.#knowsRequests = true;
  }

  flush(): void {
    this.#cancel?.();
    for (const [property, coordinates] of this.#pending) {
      const line = this.#logged.has(property)
        ? `\`context.${property}\` is read as well by the loads of ${list(coordinates)}`
        : firstLine(property, coordinates);
      this.logger.warn(`graphql-cached: ${line}`);
      this.#logged.add(property);
    }
    this.#pending.clear();
  }
}

/** How long reads are collected at most: fields read the same properties one after the other. */
const REQUEST_MS = 250;

function firstLine(property: string, coordinates: readonly string[]): string {
  const isField = (coordinate: string): boolean => coordinate.includes(".");
  const parts = [
    ...(coordinates.some(isField) ? [`add \`$context.${property}\` to the \`key\` of the field`] : []),
    ...(coordinates.every(isField)
      ? []
      : ["make it part of the id of the loader, or of the arguments of the function"]),
  ];
  return (
    `\`context.${property}\` is read by the loads of ${list(coordinates)}, which are PUBLIC, and is not part of their keys, so one caller may get a value made for another; ` +
    `apply permissions to the schema that applyCached returns, set scope: PRIVATE, or ${parts.join(", or ")}; ` +
    `only if it is the same for every caller, list it in createCache({ privacy: { sharedContextKeys: [${JSON.stringify(property)}] } })`
  );
}

const list = (coordinates: readonly string[]): string => coordinates.map((one) => `\`${one}\``).join(", ");
