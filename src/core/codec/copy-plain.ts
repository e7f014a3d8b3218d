/**
 * Returns a copy of what `JSON.parse` has returned, exactly as parsing the text again would, in a
 * fraction of the time. For nothing else: it knows neither dates nor maps.
 */
export function copyPlain(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const list: unknown[] = value.slice();
    for (let index = 0; index < list.length; index++) {
      const member = list[index];
      if (typeof member === "object" && member !== null) list[index] = copyPlain(member);
    }
    return list;
  }
  // A spread defines fields and does not assign them, so `__proto__` becomes an ordinary field, which
  // the assignment below then finds.
  const copy = { ...value } as Record<string, unknown>;
  for (const name in copy) {
    const member = copy[name];
    if (typeof member === "object" && member !== null && Object.hasOwn(copy, name)) copy[name] = copyPlain(member);
  }
  return copy;
}
