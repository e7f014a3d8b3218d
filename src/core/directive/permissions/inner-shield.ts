import { CachedError } from "../../base/errors.js";
import type { ContextWatch } from "../../loader/context-watch.js";
import type { Excess } from "../../tier/request/loaded.js";

/**
 * Notices that the resolver of a PUBLIC field is one that graphql-shield has wrapped, so that a hit would skip its
 * check. Nothing else shows that if the schema was copied since, and a bundler has renamed the functions: shield sets
 * a property of the context when it is called, unless there is one.
 */
export class InnerShield {
  #isFound = false;
  readonly #watch: ContextWatch | undefined;

  /** `watch`: undefined in a process that runs no builds of subtrees. */
  constructor(watch?: ContextWatch) {
    this.#watch = watch;
  }

  /** Runs the resolver. Hides from it that shield has checked something before. */
  run(context: unknown, resolve: () => unknown): unknown {
    if (typeof context !== "object" || context === null) return resolve();
    const outer = this.#shieldOn(context);
    if (outer !== undefined) setShield(context, undefined);
    try {
      return resolve();
    } finally {
      const inner = this.#shieldOn(context);
      if (inner !== undefined && inner !== outer) this.#isFound = true;
      if (outer !== undefined) setShield(context, outer);
    }
  }

  /** What a build of a subtree reads is reported, and this is not read by it. */
  #shieldOn(context: object): unknown {
    return this.#watch === undefined ? shieldOn(context) : this.#watch.pause(() => shieldOn(context));
  }

  excess(coordinate: string): Excess | undefined {
    if (!this.#isFound) return undefined;
    const error = new CachedError(
      "CACHED_SCOPE_NARROWED",
      `\`${coordinate}\`: the value is not cached: expected permissions that are checked outside of the cache, got graphql-shield inside, where a hit would skip its check; apply the cache first: applyMiddleware(applyCached(schema, cache), permissions)`,
      { coordinate },
    );
    return { kind: "unkeyable", isNarrowed: true, error };
  }
}

/** Undefined as well if the context is a Proxy that refuses to say. */
function shieldOn(context: object): unknown {
  try {
    return (context as { readonly _shield?: unknown })._shield;
  } catch {
    return undefined;
  }
}

function setShield(context: object, shield: unknown): void {
  try {
    Reflect.set(context, "_shield", shield);
  } catch {
    // It cannot be hidden there, as on a frozen context.
  }
}
