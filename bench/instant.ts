/** Milliseconds on a monotonic clock that all processes of the machine share. */
export const instantMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Resolves after `ms` milliseconds. */
export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
