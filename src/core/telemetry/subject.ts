import type { Subject } from "./events.js";

/** Returns what all events of a key have. */
export const subjectOf = ({ coordinate, digest, kind }: ReportedKey): Subject =>
  kind === "subtree" ? { coordinate, digest, isSubtree: true } : { coordinate, digest };

/** The key of an entry, as far as events show it. */
export interface ReportedKey {
  readonly coordinate: string;
  readonly digest: string;
  readonly kind?: string | undefined;
}
