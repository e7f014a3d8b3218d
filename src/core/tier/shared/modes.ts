import { CachedError, describeSetting, optionInvalid } from "../../base/errors.js";

/**
 * How a field, a loader, `responses` or everything uses the cache. `off`: neither look up nor
 * store. `on`: use the cache.
 */
export type Mode = "off" | "on";

/** What `cache.setMode` has switched off in this process. */
export class Modes {
  /** Everything is on, and the cache is open. Not computed, since every hit reads it. */
  isUnrestricted = true;
  readonly #off = new Set<string>();
  isClosed = false;

  isOff(coordinate: string): boolean {
    return !this.isUnrestricted && (this.#off.has(EVERYTHING) || this.#off.has(coordinate));
  }

  /** Throws `CACHED_OPTION_INVALID` or `CACHED_COORDINATE_UNKNOWN` for wrong arguments. */
  set(mode: unknown, coordinate: unknown, known: ReadonlySet<string>): void {
    if (mode !== "off" && mode !== "on")
      throw optionInvalid(`cache.setMode: expected the mode "off" or "on", got ${describeSetting(mode)}`);
    if (coordinate !== undefined && typeof coordinate !== "string")
      throw optionInvalid(
        `cache.setMode: \`coordinate\`: expected a field such as "Query.movie", the name of a loader, or "responses", got ${describeSetting(coordinate)}; leave it out to set the mode of everything`,
      );
    if (coordinate !== undefined && !known.has(coordinate)) {
      const mistake = `cache.setMode: expected a cached field, the name of a loader, or "responses", got \`${coordinate}\`; known are ${[...known].sort().join(", ")}`;
      throw new CachedError("CACHED_COORDINATE_UNKNOWN", mistake, { coordinate });
    }
    if (mode === "off") this.#off.add(coordinate ?? EVERYTHING);
    else this.#off.delete(coordinate ?? EVERYTHING);
    this.#update();
  }

  close(): void {
    this.isClosed = true;
    this.#update();
  }

  #update(): void {
    this.isUnrestricted = this.#off.size === 0 && !this.isClosed;
  }
}

/** No coordinate has this name. */
const EVERYTHING = "*";
