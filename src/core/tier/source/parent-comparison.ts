import { attempt } from "../../base/built-in.js";
import type { Logger } from "../../telemetry/log-listener.js";
import type { LoadedValue } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";

/**
 * Compares, outside of production, the parents of readers that share one load: a key that names a
 * parent by its id does not tell two shops apart that sell the same item. Reports the properties in
 * which they differ, once for each field, by name.
 */
export class ParentComparison {
  readonly #sources = new WeakMap<LoadedValue, object>();
  readonly #reported = new Set<string>();

  constructor(private readonly logger: Logger) {}

  /** Notes the parent that a value was loaded with. */
  note(loaded: LoadedValue, request: ReadRequest): void {
    const parent = parentOf(request);
    if (parent !== undefined && !this.#reported.has(request.key.coordinate)) this.#sources.set(loaded, parent);
  }

  /** Compares the parent of a reader that gets a value which was loaded for another one. */
  compare(loaded: LoadedValue, request: ReadRequest): void {
    const { coordinate } = request.key;
    const first = this.#sources.get(loaded);
    const other = parentOf(request);
    if (first === undefined || other === undefined || first === other || this.#reported.has(coordinate)) return;
    const differing = differences(first, other);
    if (differing.length === 0) return;
    this.#reported.add(coordinate);
    const listed = (prefix: string): string => differing.map((name) => `\`${prefix}${name}\``).join(", ");
    this.logger.warn(
      `graphql-cached: \`${coordinate}\`: one value was loaded for parents with the same key that differ in ${listed("")}; ` +
        `if it depends on ${differing.length === 1 ? "that" : "these"}, add ${listed("$source.")} to the \`key\` of the field`,
    );
  }
}

/** The parent of a field below the root. Loaders have none, and `rootValue` is no parent. */
function parentOf({ source, call }: ReadRequest): object | undefined {
  const { path } = (call ?? {}) as { readonly path?: { readonly prev?: unknown } };
  return path?.prev === undefined || typeof source !== "object" || source === null ? undefined : source;
}

const MAX_NAMES = 5;
const MAX_PROPERTIES = 100;

/** A Proxy may throw. */
const differences = (one: object, other: object): string[] =>
  attempt(() =>
    Object.keys(one)
      .slice(0, MAX_PROPERTIES)
      .filter((name) => name in other && isOther(dataOf(one, name), dataOf(other, name)))
      .slice(0, MAX_NAMES),
  ) ?? [];

/** Returns the value of a property without calling a getter. */
const dataOf = (object: object, name: string): unknown => Object.getOwnPropertyDescriptor(object, name)?.value;

/** Whether two properties differ in a plain value or an `id`. `7` and "7" are one, as in keys. */
function isOther(one: unknown, other: unknown): boolean {
  if (typeof one === "object" && one !== null && typeof other === "object" && other !== null)
    return isOther(textOf(dataOf(one, "id")), textOf(dataOf(other, "id")));
  return textOf(one) !== undefined && textOf(other) !== undefined && textOf(one) !== textOf(other);
}

const textOf = (value: unknown): string | undefined =>
  ["string", "number", "bigint", "boolean"].includes(typeof value) ? String(value) : undefined;
