import type { Identity } from "../loader/identity.js";
import type { CacheParts } from "../parts.js";

/**
 * Finds, outside of production, what tells two contexts of one identity apart, and is read by
 * executions whose responses they share.
 */
export class PrivateReads {
  readonly #parts: Pick<CacheParts, "contextWatch" | "onceLog">;
  /** What was read, by identity and property. */
  readonly #known = new Map<string, unknown>();

  constructor(parts: Pick<CacheParts, "contextWatch" | "onceLog">) {
    this.#parts = parts;
  }

  /** `names`: the properties of a context that an execution has read. */
  note(identity: Identity, context: object, names: readonly string[]): void {
    const { contextWatch, onceLog } = this.#parts;
    for (const name of names) {
      const value = contextWatch.pause(() => (context as Readonly<Record<string, unknown>>)[name]);
      // Objects are new in each context.
      if (!["string", "number", "boolean"].includes(typeof value)) continue;
      const key = `${name} ${identity}`;
      if (this.#known.has(key) && this.#known.get(key) !== value)
        onceLog.warn(
          `graphql-cached: a response is shared by the contexts of one identity, although its execution has read \`context.${name}\`, in which two of them differ; add "$context.${name}" to \`responses.key\`, or list it in createCache({ privacy: { sharedContextKeys } }) if no response depends on it`,
        );
      else if (this.#known.size < MAX_KNOWN) this.#known.set(key, value);
    }
  }
}

/** Bounds the memory. */
const MAX_KNOWN = 10_000;
