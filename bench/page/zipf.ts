import type { Random } from "../seeded-random.js";

/** Returns a generator of the numbers 0 to `count - 1` by Zipf's law: number n is 1 / (n + 1) as frequent as the first. */
export function zipf(count: number, random: Random): () => number {
  const sums = new Float64Array(count);
  let total = 0;
  for (let number = 0; number < count; number++) sums[number] = total += 1 / (number + 1);
  return () => {
    const at = random() * total;
    let [low, high] = [0, count - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] as number) > at) high = middle;
      else low = middle + 1;
    }
    return low;
  };
}
