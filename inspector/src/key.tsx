import { visible } from "./format.js";
import type { HotKey } from "./types.js";

/** What names one entry, as the form of the explorer has it. */
export interface KeyParts {
  readonly coordinate: string;
  readonly args: string;
  readonly source: string;
  readonly context: string;
  readonly id: string;
  readonly private: string;
}

export const NO_KEY: KeyParts = { coordinate: "", args: "", source: "", context: "", id: "", private: "" };

const isFilled = (part: unknown): part is object =>
  typeof part === "object" && part !== null && Object.keys(part).length > 0;

/** Whether the key's inputs are known, so that its entry can be looked up. */
export const isKnown = ({ args, source, id }: HotKey): boolean =>
  (id !== null && id !== undefined) || (args !== null && args !== undefined) || isFilled(source);

/** Returns what a hot key was made of, in a line. */
export function keyText({ args, source, id, digest }: HotKey): string {
  const parts = [
    ...(isFilled(args) ? [JSON.stringify(args)] : []),
    ...(isFilled(source) ? [`of ${JSON.stringify(source)}`] : []),
    ...(id !== null && id !== undefined ? [JSON.stringify(id)] : []),
  ];
  if (parts.length > 0) return visible(parts.join(" "), 200);
  return args === null || args === undefined ? `#${visible(digest, 12)}` : "without arguments";
}

export const partsOfHotKey = ({ coordinate, args, source, id }: HotKey): KeyParts => ({
  ...NO_KEY,
  coordinate,
  args: args === null || args === undefined ? "" : JSON.stringify(args),
  source: isFilled(source) ? JSON.stringify(source) : "",
  id: id === null || id === undefined ? "" : JSON.stringify(id),
});

/** The address of the explorer with a key filled in. It stays in the browser: what follows # is never sent. */
export function linkTo(parts: KeyParts): string {
  const query = new URLSearchParams(Object.entries(parts).filter(([, value]) => value !== ""));
  return `#entry?${query}`;
}

export function partsInLink(hash: string): KeyParts {
  const query = new URLSearchParams(hash.slice(hash.indexOf("?") + 1));
  const get = (name: string): string => (hash.includes("?") ? (query.get(name) ?? "") : "");
  return {
    coordinate: get("coordinate"),
    args: get("args"),
    source: get("source"),
    context: get("context"),
    id: get("id"),
    private: get("private"),
  };
}

/** Returns the parts as variables of a question, or what is wrong with one of them. */
export function variablesOf(
  parts: KeyParts,
): { readonly variables: Record<string, unknown> } | { readonly mistake: string } {
  const variables: Record<string, unknown> = { coordinate: parts.coordinate.trim() };
  const labels = { args: "Arguments", source: "Parent", context: "Context" } as const;
  for (const [name, label] of Object.entries(labels) as [keyof typeof labels, string][]) {
    const text = parts[name].trim();
    if (text === "") continue;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      value = undefined;
    }
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return { mistake: `${label}: expected a JSON object such as {"id": 7}, got something else.` };
    variables[name] = value;
  }
  const id = parts.id.trim();
  if (id !== "") {
    try {
      variables.id = JSON.parse(id);
    } catch {
      // A word is an id of its own; a number that is a string has quotes.
      variables.id = id;
    }
  }
  if (parts.private.trim() !== "") variables.private = parts.private.trim();
  return { variables };
}
