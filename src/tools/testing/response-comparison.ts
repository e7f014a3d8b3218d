import { inspect, isDeepStrictEqual } from "node:util";
import type { ExecutionResult } from "graphql";
import { isPlainObject } from "../../core/base/built-in.js";

/**
 * Returns a response in comparable form, without what is at the paths in `ignored`. Adds each of these paths that the
 * response has to `seen`. Which error is first below a position that an error made null depends on timing, so such
 * errors are reduced to that position.
 */
export function comparable(
  { data, errors = [] }: ExecutionResult,
  ignored: readonly string[],
  seen: Set<string>,
): Response {
  const isIgnored = (pattern: string): boolean => {
    if (!ignored.includes(pattern)) return false;
    seen.add(pattern);
    return true;
  };
  const byPath = new Map<string, Set<string>>();
  for (const { message, path = [], extensions } of errors) {
    if (pathsAlong(path).some(isIgnored)) continue;
    const depth = depthOfNull(data, path);
    const text =
      depth < path.length
        ? "an error at or below this path"
        : `error ${inspect({ message, extensions }, { depth: 10 })}`;
    const place = pathText(path.slice(0, depth));
    byPath.set(place, (byPath.get(place) ?? new Set()).add(text));
  }
  return { data: without(data, "", isIgnored), errors: byPath };
}

/** A response in comparable form. */
export interface Response {
  readonly data: unknown;
  /** The texts of the errors at each path, regardless of their order, which depends on timing. */
  readonly errors: ReadonlyMap<string, ReadonlySet<string>>;
}

/** A place at which two responses differ. */
export interface Difference {
  /** Response keys and list indexes, such as `movies[0].title`. */
  readonly path: string;
  /** The same without list indexes, as in `ignore`. */
  readonly pattern: string;
  readonly first: unknown;
  readonly second: unknown;
}

/** What stands for a value that a response does not have. */
const MISSING: unique symbol = Symbol("nothing");

function pathText(path: readonly (string | number)[]): string {
  const text = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("");
  return text === "" ? "errors" : text.slice(1);
}

/** Returns the paths of response keys from the root to an error. */
function pathsAlong(path: readonly (string | number)[]): string[] {
  const keys = path.filter((step) => typeof step === "string");
  return keys.map((_, nth) => keys.slice(0, nth + 1).join("."));
}

/** Returns how many steps of `path` lead to something other than null. */
function depthOfNull(data: unknown, path: readonly (string | number)[]): number {
  let value = data;
  let depth = 0;
  while (depth < path.length && value !== null && value !== undefined)
    value = (value as Readonly<Record<string | number, unknown>>)[path[depth++] as string];
  return depth;
}

function without(value: unknown, pattern: string, isIgnored: (pattern: string) => boolean): unknown {
  if (Array.isArray(value)) return value.map((one) => without(one, pattern, isIgnored));
  if (!isPlainObject(value)) return value;
  const kept = Object.entries(value).flatMap(([name, one]) => {
    const path = pattern === "" ? name : `${pattern}.${name}`;
    return isIgnored(path) ? [] : [[name, without(one, path, isIgnored)] as const];
  });
  return Object.fromEntries(kept);
}

/** Returns where two responses differ, errors last. */
export function differencesOf(first: Response, second: Response): Difference[] {
  const found: Difference[] = [];
  compare(first.data, second.data, { path: "", pattern: "" }, found);
  const [inFirst, inSecond] = [first.errors, second.errors];
  for (const path of new Set([...inFirst.keys(), ...inSecond.keys()])) {
    const [one, other] = [inFirst.get(path) ?? MISSING, inSecond.get(path) ?? MISSING];
    if (isDeepStrictEqual(one, other) || found.some((known) => known.path === path)) continue;
    found.push({ path, pattern: path.replaceAll(/\[\d+\]/g, ""), first: one, second: other });
  }
  return found;
}

function compare(
  first: unknown,
  second: unknown,
  { path, pattern }: Pick<Difference, "path" | "pattern">,
  found: Difference[],
): void {
  if (isDeepStrictEqual(first, second)) return;
  if (Array.isArray(first) && Array.isArray(second) && first.length === second.length) {
    for (const [nth, one] of first.entries()) compare(one, second[nth], { path: `${path}[${nth}]`, pattern }, found);
  } else if (isPlainObject(first) && isPlainObject(second)) {
    for (const name of new Set([...Object.keys(first), ...Object.keys(second)])) {
      const below = (text: string): string => (text === "" ? name : `${text}.${name}`);
      const valueIn = (record: object): unknown =>
        Object.hasOwn(record, name) ? (record as Readonly<Record<string, unknown>>)[name] : MISSING;
      compare(valueIn(first), valueIn(second), { path: below(path), pattern: below(pattern) }, found);
    }
  } else {
    found.push({ path: path === "" ? "data" : path, pattern, first, second });
  }
}

/** Returns a value of a response as text of at most 200 characters. */
export function show(value: unknown): string {
  if (value === MISSING) return "nothing";
  if (value instanceof Set) return [...value].join(" and ");
  const text = inspect(value, { depth: 4, breakLength: Number.POSITIVE_INFINITY }).replaceAll(
    "[Object: null prototype] ",
    "",
  );
  return text.length > 200 ? `${text.slice(0, 199)}…` : text;
}
