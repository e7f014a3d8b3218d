/** Returns numbers from 0 (included) to 1 (excluded). */
export type Random = () => number;

/** Returns a generator of numbers from 0 (included) to 1 (excluded), determined by the seed. Source: mulberry32, Tommy Ettinger, 2017. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}
