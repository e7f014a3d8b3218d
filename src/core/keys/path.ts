import { isObject } from "../base/built-in.js";

/** Where a path starts. `result` is known only after the load, the others before it. */
type PathRoot = "args" | "source" | "context" | "selection" | "result";

/** A parsed path such as `$args.filter.id` or `$result.items[].id`. */
export interface Path {
  readonly text: string;
  readonly root: PathRoot;
  /** Property names; `[]` stands for every member of a list. */
  readonly steps: readonly string[];
  /** Whether the path leads to a value of the GraphQL type `ID`, according to the schema. */
  readonly isId?: boolean | undefined;
}

/** The objects that paths start from. Roots that a path does not use can be omitted. */
export type PathRoots = Readonly<Partial<Record<PathRoot, unknown>>>;

const SHAPE = /^\$(args|source|context|selection|result)((?:\[\]|\.[A-Za-z_][A-Za-z0-9_]*)*)$/;
export const EACH = "[]";

export function parsePath(text: string): Path | undefined {
  const match = SHAPE.exec(text);
  if (match === null) return undefined;
  const root = match[1] as PathRoot;
  const steps = (match[2] ?? "").match(/\[\]|[A-Za-z0-9_]+/g) ?? [];
  if (steps.some((step) => step.startsWith("__")) || (root === "selection" && steps.length > 0)) return undefined;
  return { text, root, steps };
}

/** Returns the values at `path`, in order, without null, undefined and what is no list for `[]`. */
export function readPath(path: Path, roots: PathRoots): readonly unknown[] {
  let values: unknown[] = [roots[path.root]];
  for (const step of path.steps) values = stepInto(values, step);
  return values.every(isPresent) ? values : values.filter(isPresent);
}

/** Returns a `property` that none of the objects at `at` has, if the path ends early for that. */
export function missingPropertyOf({ root, steps }: Path, roots: PathRoots) {
  let values: unknown[] = [roots[root]];
  let at = `$${root}`;
  for (const property of steps) {
    values = stepInto(values.filter(isPresent), property);
    if (property !== EACH && values.length > 0 && values.every((value) => value === undefined)) return { at, property };
    at += property === EACH ? EACH : `.${property}`;
  }
  return undefined;
}

/** Replaces the values in place, unless the step leads to members of lists: hits come here. */
function stepInto(values: unknown[], step: string): unknown[] {
  if (step === EACH) return values.flatMap((value) => (Array.isArray(value) ? (value as unknown[]) : []));
  for (const [nth, value] of values.entries()) values[nth] = isObject(value) ? value[step] : undefined;
  return values;
}

const isPresent = (value: unknown): boolean => value !== undefined && value !== null;
