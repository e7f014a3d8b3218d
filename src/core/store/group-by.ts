/** Returns the positions of `items` by group, in the order of their first items. */
export function groupBy<Item, Group>(
  items: readonly Item[],
  groupOf: (item: Item) => Group,
): ReadonlyMap<Group, readonly number[]> {
  const groups = new Map<Group, number[]>();
  for (let index = 0; index < items.length; index++) {
    const group = groupOf(items[index] as Item);
    const indexes = groups.get(group);
    if (indexes === undefined) groups.set(group, [index]);
    else indexes.push(index);
  }
  return groups;
}
