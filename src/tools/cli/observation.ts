import { compact, percent } from "./terminal.js";

/** What the inspection tells of reads in the mode observe. */
export const OBSERVED =
  "observed { reads hit stale miss bypassed hitRatio compared different comparedStale differentStale }";

/** The counts of reads in the mode observe. */
export type Observation = Readonly<
  Record<
    | "reads"
    | "hit"
    | "stale"
    | "miss"
    | "bypassed"
    | "hitRatio"
    | "compared"
    | "different"
    | "comparedStale"
    | "differentStale",
    number
  >
>;

/** Returns what the mode observe has measured, in words. */
export function observationText(seen: Observation): string {
  const { reads, hitRatio, stale, bypassed, compared, different, comparedStale, differentStale } = seen;
  const parts = [`${compact(reads)} reads, ${percent(hitRatio)} would be fresh hits`];
  if (stale > 0) parts.push(`${compact(stale)} stale`);
  if (bypassed > 0) parts.push(`${compact(bypassed)} bypassed`);
  const values = (count: number): string => `${compact(count)} ${count === 1 ? "value" : "values"}`;
  parts.push(
    compared === 0
      ? "no value was compared yet"
      : `${compact(different)} of ${values(compared)} differed from the source`,
  );
  if (comparedStale > 0) parts.push(`${compact(differentStale)} of ${values(comparedStale)} that were stale`);
  return parts.join("; ");
}
