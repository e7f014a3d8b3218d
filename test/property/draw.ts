import { createHash } from "node:crypto";
import fc, { type GeneratorValue } from "fast-check";

/** A source of random choices for the generators of schemas, data and queries. */
export interface Draw {
  /** Returns an integer from 0 to `max`. */
  int(max: number): number;
  /** Returns true in `percent` of a hundred cases. Shrinks to false. */
  chance(percent: number): boolean;
  /** Returns one of `choices`. */
  pick<T>(choices: readonly T[]): T;
  /** Returns each of `choices` with a probability of one half. */
  some<T>(choices: readonly T[]): T[];
}

function drawOf(int: (max: number) => number): Draw {
  const chance = (percent: number): boolean => int(99) >= 100 - percent;
  return {
    int,
    chance,
    pick: (choices) => choices[int(choices.length - 1)] as never,
    some: (choices) => choices.filter(() => chance(50)),
  };
}

/** Random choices that fast-check generates and shrinks. */
export const drawFrom = (gen: GeneratorValue): Draw => drawOf((max) => gen(fc.nat, { max }));

/**
 * Choices that depend only on `seed`, so that data is a function of coordinate, parent and
 * arguments.
 */
export function drawOfSeed(seed: string): Draw {
  let bytes = createHash("sha256").update(seed).digest();
  let at = 0;
  return drawOf((max) => {
    if (at + 2 > bytes.length) {
      bytes = createHash("sha256").update(bytes).digest();
      at = 0;
    }
    at += 2;
    return bytes.readUInt16LE(at - 2) % (max + 1);
  });
}
