/**
 * Returns arguments as text: fields are sorted and every type has its own form, so that equal text
 * means equal arguments. Independent of the cache's own canonical text.
 */
export function canonicalText(value: unknown): string {
  if (typeof value === "bigint") return `big ${value}`;
  if (value instanceof Date) return `date ${value.getTime()}`;
  if (Array.isArray(value)) return `[${value.map(canonicalText).join()}]`;
  if (typeof value === "object" && value !== null)
    return `{${Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, member]) => `${name}:${canonicalText(member)}`)
      .join()}}`;
  return Object.is(value, -0) ? "0" : (JSON.stringify(value) ?? "undefined");
}
