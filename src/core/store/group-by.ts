import { getOrMake } from "../base/multimap.js";

/** Returns the positions of `items` by group, in the order of their first items. */
export function groupBy<Item, Group>(
  items: readonly Item[],
  groupOf: (item: Item) => Group,
): ReadonlyMap<Group, readonly number[]> {
  const groups = new Map<Group, number[]>();
  for (const [index, item] of items.entries()) getOrMake(groups, groupOf(item), () => []).push(index);
  return groups;
}
