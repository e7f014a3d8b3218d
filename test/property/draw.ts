import { createHash } from "node:crypto";
import fc, { type GeneratorValue } from "fast-check";

/** Chance, as the makers of schemas, data and queries ask for it. */
export interface Draw {
  /** 0 to `most`. */
  int(most: number): number;
  /** True in `percent` of a hundred cases; what shrinks, shrinks to false. */
  chance(percent: number): boolean;
  pick<T>(among: readonly T[]): T;
  /** Each of `among` with a chance of half. */
  some<T>(among: readonly T[]): T[];
}

function drawOf(int: (most: number) => number): Draw {
  const chance = (percent: number): boolean => int(99) >= 100 - percent;
  return {
    int,
    chance,
    pick: (among) => among[int(among.length - 1)] as never,
    some: (among) => among.filter(() => chance(50)),
  };
}

/** Chance that fast-check gives and shrinks. */
export const drawFrom = (gen: GeneratorValue): Draw => drawOf((most) => gen(fc.nat, { max: most }));

/** Chance that depends on `seed` and on nothing else: what makes data a function of coordinate, parent and arguments. */
export function drawOfSeed(seed: string): Draw {
  let bytes = createHash("sha256").update(seed).digest();
  let at = 0;
  return drawOf((most) => {
    if (at + 2 > bytes.length) {
      bytes = createHash("sha256").update(bytes).digest();
      at = 0;
    }
    at += 2;
    return bytes.readUInt16LE(at - 2) % (most + 1);
  });
}
