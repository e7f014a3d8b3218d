const TAGS = 50;

/** Returns `count` of the fifty tags that all keys share, by the number at the end of an id. */
export function tagsOf(id: string, count: number): string[] {
  const number = Number(id.slice(id.lastIndexOf("-") + 1));
  return Array.from({ length: count }, (_, nth) => `Genre:${(number + 7 * nth) % TAGS}`);
}
