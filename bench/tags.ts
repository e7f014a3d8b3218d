const TAGS = 50;
const ZERO = 48;

/**
 * Returns `count` of the fifty tags that all keys share, by the number at the end of an id. Takes as long as an
 * application needs to name the tags of a key: a slow function would hide what they cost a cache.
 */
export function tagsOf(id: string, count: number): string[] {
  const tags: string[] = [];
  // The last two digits: a hundred is a multiple of fifty. An id with one digit has a character before it.
  const number = 10 * digitAt(id, id.length - 2) + digitAt(id, id.length - 1);
  for (let nth = 0; nth < count; nth++) tags.push(`Genre:${(number + 7 * nth) % TAGS}`);
  return tags;
}

function digitAt(id: string, at: number): number {
  const digit = id.charCodeAt(at) - ZERO;
  return digit >= 0 && digit <= 9 ? digit : 0;
}
