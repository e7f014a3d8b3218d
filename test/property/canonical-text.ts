/** Arguments as text: fields sorted, every type told apart, so that equal text means equal arguments. Apart from the cache's own way of writing keys. */
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
