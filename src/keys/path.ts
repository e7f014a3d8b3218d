/** What a path starts from. `result` is known only after the load; the others before it. */
export type PathRoot = "args" | "source" | "context" | "selection" | "result";

/** A parsed `$args.filter.id` or `$result.items[].id`. */
export interface Path {
  readonly text: string;
  readonly root: PathRoot;
  /** Property names; `[]` stands for every member of a list. */
  readonly steps: readonly string[];
}

/** The objects that paths start from. What a path does not start from may be left out. */
export type PathRoots = Readonly<Partial<Record<PathRoot, unknown>>>;

const SHAPE = /^\$(args|source|context|selection|result)((?:\[\]|\.[A-Za-z_][A-Za-z0-9_]*)*)$/;
const EACH = "[]";

/** Undefined where `text` is no path. */
export function parsePath(text: string): Path | undefined {
  const match = SHAPE.exec(text);
  if (match === null) return undefined;
  const root = match[1] as PathRoot;
  const steps = (match[2] ?? "").match(/\[\]|[A-Za-z0-9_]+/g) ?? [];
  if (steps.some((step) => step.startsWith("__")) || (root === "selection" && steps.length > 0)) return undefined;
  return { text, root, steps };
}

/**
 * Everything `path` leads to, in order; more than one only behind `[]`.
 * What is not there, or null, or no list where one was expected, contributes nothing.
 */
export function readPath(path: Path, roots: PathRoots): readonly unknown[] {
  let found: readonly unknown[] = [roots[path.root]];
  for (const step of path.steps) {
    found =
      step === EACH
        ? found.flatMap((value) => (Array.isArray(value) ? (value as unknown[]) : []))
        : found.map((value) => (isObject(value) ? value[step] : undefined));
  }
  return found.filter((value) => value !== undefined && value !== null);
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
