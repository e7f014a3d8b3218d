/** The median and quartiles of repeated measurements. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  readonly runs: number;
}

/** Returns the percentile `ratio` of the numbers, or 0 for an empty list. */
export function percentile(numbers: readonly number[], ratio: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * ratio))] ?? 0;
}

/** Returns the median; for an even count the mean of the two middle numbers. */
export function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? 0) + (sorted[Math.floor(middle)] ?? 0)) / 2;
}

export function spreadOf(numbers: readonly number[]): Spread {
  return {
    median: median(numbers),
    low: percentile(numbers, 0.25),
    high: percentile(numbers, 0.75),
    runs: numbers.length,
  };
}

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);

export const max = (numbers: readonly number[]): number =>
  numbers.reduce((largest, number) => Math.max(largest, number), 0);
