/**
 * Returns the name among `known` that `given` is probably a misspelling of: one with at most two letters more, less,
 * different or swapped, or one of them if either has up to four. Undefined if there is none.
 */
export function closestTo(given: string, known: Iterable<string>): string | undefined {
  let closest: { readonly name: string; readonly distance: number } | undefined;
  for (const name of known) {
    const limit = Math.min(given.length, name.length) <= 4 ? 1 : 2;
    if (Math.abs(name.length - given.length) > limit) continue;
    const distance = distanceOf(given.toLowerCase(), name.toLowerCase());
    if (distance <= limit && (closest === undefined || distance < closest.distance)) closest = { name, distance };
  }
  return closest?.name;
}

/** The number of letters that two words differ in, where two swapped neighbours count as one. */
function distanceOf(one: string, other: string): number {
  let before: readonly number[] = [];
  let last: readonly number[] = Array.from({ length: other.length + 1 }, (_, length) => length);
  for (let row = 1; row <= one.length; row++) {
    const current = [row];
    for (let column = 1; column <= other.length; column++) {
      const isSame = one[row - 1] === other[column - 1];
      const isSwapped =
        row > 1 && column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      current[column] = Math.min(
        (last[column] as number) + 1,
        (current[column - 1] as number) + 1,
        (last[column - 1] as number) + (isSame ? 0 : 1),
        isSwapped ? (before[column - 2] as number) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [before, last] = [last, current];
  }
  return last[other.length] as number;
}
