import { CachedError } from "../../base/errors.js";
import type { ContextWatch } from "../../loader/context-watch.js";
import type { Excess } from "../../tier/request/loaded.js";

/**
 * Runs the resolver of a PUBLIC field, and calls `onShield` if it is one that graphql-shield has wrapped, so that a hit
 * would skip its check. Nothing else shows that if the schema was copied since, and a bundler has renamed the functions:
 * shield sets a property of the context when it is called, unless there is one. So an earlier check is hidden from it.
 */
export function runNoticingShield(
  context: unknown,
  watch: ContextWatch,
  resolve: () => unknown,
  onShield: () => void,
): unknown {
  if (typeof context !== "object" || context === null) return resolve();
  const outer = shieldOn(context, watch);
  if (outer !== undefined) setShield(context, undefined);
  try {
    return resolve();
  } finally {
    const inner = shieldOn(context, watch);
    if (inner !== undefined && inner !== outer) onShield();
    if (outer !== undefined) setShield(context, outer);
  }
}

export const shieldExcess = (coordinate: string): Excess => ({
  kind: "unkeyable",
  isNarrowed: true,
  error: new CachedError(
    "CACHED_SCOPE_NARROWED",
    `\`${coordinate}\`: the value is not cached: expected permissions that are checked outside of the cache, got graphql-shield inside, where a hit would skip its check; apply the cache first: applyMiddleware(applyCached(schema, cache), permissions)`,
    { coordinate },
  ),
});

/** What a build of a subtree reads is reported, and this is not read by it. Undefined as well if the context is a Proxy that refuses to say. */
function shieldOn(context: object, watch: ContextWatch): unknown {
  try {
    return watch.pause(() => (context as { readonly _shield?: unknown })._shield);
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
