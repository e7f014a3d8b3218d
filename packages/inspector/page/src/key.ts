/** What names one entry, as the form of the explorer has it. */
const NAMES = ["coordinate", "args", "source", "context", "id", "private"] as const;
export type KeyParts = Readonly<Record<(typeof NAMES)[number], string>>;

/** The address of the explorer with a key filled in. It stays in the browser: what follows # is never sent. */
export function linkTo(parts: Partial<KeyParts>): string {
  const query = new URLSearchParams(Object.entries(parts).filter(([, value]) => value !== ""));
  return `#entry?${query}`;
}

/** Returns a parameter of an address. */
export const inHash = (hash: string, name: string): string =>
  hash.includes("?") ? (new URLSearchParams(hash.slice(hash.indexOf("?") + 1)).get(name) ?? "") : "";

export const partsInLink = (hash: string): KeyParts =>
  Object.fromEntries(NAMES.map((name) => [name, inHash(hash, name)])) as KeyParts;

/** Returns the parts as variables of a question, or what is wrong with one of them. */
export function variablesOf(
  parts: KeyParts,
): { readonly variables: Readonly<Record<string, unknown>> } | { readonly mistake: string } {
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
  try {
    if (id !== "") variables.id = JSON.parse(id);
  } catch {
    // A word is an id of its own; a number that is a string has quotes.
    variables.id = id;
  }
  if (parts.private.trim() !== "") variables.private = parts.private.trim();
  return { variables };
}
