/** Several measurements of one thing: their median, and the quartiles around it. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  readonly runs: number;
}

/** The number that `share` of the numbers do not exceed; 0 where there are none. */
export function percentile(numbers: readonly number[], share: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

/** Between two middle numbers lies their mean. */
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

export const max = (numbers: readonly number[]): number => numbers.reduce((most, number) => Math.max(most, number), 0);
