import { GraphQLError } from "graphql";
import { readParts, readValue } from "../../core/keys/canonical-reader.js";
import type { HotKey } from "../../core/telemetry/hot-keys.js";
import type { CacheHotKey, CacheHotKeys, CacheInspectionHotKeysArgs } from "../../generated/schema.js";
import { MAX_HOT_KEYS } from "../fleet/fleet.js";
import type { InspectedParts } from "./inspected-parts.js";
import { isoTimeOf } from "./times.js";

/**
 * Describes the keys that are read most. `mayShow` returns whether the caller may see the arguments of a coordinate.
 * Rejects with `CACHED_OPTION_INVALID` if `first` is out of range.
 */
export async function describeHotKeys(
  parts: InspectedParts,
  { window = "TEN_MINUTES", coordinate, first = 20 }: CacheInspectionHotKeysArgs,
  mayShow: (coordinate: string) => Promise<boolean>,
): Promise<CacheHotKeys> {
  if (first < 1 || first > MAX_HOT_KEYS)
    throw new GraphQLError(
      `cacheInspection.hotKeys: \`first\`: expected an integer from 1 to ${MAX_HOT_KEYS}, got ${first}`,
      { extensions: { code: "CACHED_OPTION_INVALID" } },
    );
  const { keys, reads, floor, sinceAt } = await parts.fleet.hotKeys(window, coordinate ?? undefined);
  const shown = keys.slice(0, first);
  const granted = new Map<string, boolean>();
  for (const { coordinate: one } of shown) if (!granted.has(one)) granted.set(one, await mayShow(one));
  return {
    keys: shown.map((key) => ({
      coordinate: key.coordinate,
      digest: key.digest,
      reads: key.reads,
      maxError: key.maxError,
      ...(granted.get(key.coordinate) === true ? inputsOf(parts, key) : NO_INPUTS),
    })),
    reads,
    maxError: floor,
    since: isoTimeOf(sinceAt),
  };
}

type Inputs = Pick<CacheHotKey, "args" | "source" | "id">;

const NO_INPUTS: Inputs = { args: null, source: null, id: null };

/** Returns what the key was made of, as far as it can be read from its input. */
function inputsOf({ rules, loaders }: InspectedParts, { coordinate, input }: HotKey): Inputs {
  if (input === undefined) return NO_INPUTS;
  const loader = loaders.get(coordinate);
  const rule = rules.fields.get(coordinate);
  try {
    if (input.startsWith("loader "))
      return loader?.hasIdInKey === true ? { ...NO_INPUTS, id: readValue(partsIn(input, coordinate)) } : NO_INPUTS;
    if (rule === undefined) return NO_INPUTS;
    const inputs: { args: Record<string, unknown>; source: Record<string, unknown> } = { args: {}, source: {} };
    for (const { root, steps, value } of readParts(partsIn(input, coordinate), rule.keyPaths))
      if (root === "args" || root === "source") put(inputs, [root, ...steps], value);
    return { ...inputs, id: null };
  } catch {
    // Part of it is text that cannot be read back.
    return NO_INPUTS;
  }
}

/** Returns the part of a key's input behind its kind, coordinate and identity. */
function partsIn(input: string, coordinate: string): string {
  const rest = input.slice(input.indexOf(" ") + 1 + coordinate.length + 1);
  const identity = /^(?:"(?:[^"\\]|\\.)*")? /.exec(rest);
  return rest.slice(identity?.[0].length ?? 0);
}

function put(to: Record<string, unknown>, [name = "", ...steps]: readonly string[], value: unknown): void {
  if (steps.length === 0) {
    to[name] = value;
    return;
  }
  const below = (to[name] ?? {}) as Record<string, unknown>;
  to[name] = below;
  put(below, steps, value);
}
