import { readEntry } from "../store/entry-layout.js";
import type { Grant } from "../store/store.js";

/** Parses the reply of the script `acquire` for one key: a status word, followed by its details. */
export function readGrant(reply: unknown): Grant {
  if (reply instanceof Error) return { kind: "unavailable", error: reply };
  if (!Array.isArray(reply)) return { kind: "expired" };
  const [status, ...rest] = reply as [Buffer, ...Buffer[]];
  const text = (at: number): string => (rest[at] as Buffer).toString("latin1");
  switch (status.toString()) {
    case "granted":
      return {
        kind: "granted",
        gen: text(0),
        token: text(1),
        grantedAt: Number(text(2)),
        isTakenOver: Number(rest[3]) === 1,
      };
    case "value": {
      const entry = readEntry(rest[0] as Buffer);
      return entry === undefined ? { kind: "unknown-format" } : { kind: "value", entry, now: Number(text(1)) };
    }
    case "busy":
      return { kind: "busy", gen: text(0), remainingMs: Number(text(1)) };
    case "failed":
      return { kind: "failed", body: rest[0] as Buffer };
    case "uncacheable":
      return { kind: "uncacheable" };
    case "write-in-progress":
      return { kind: "write-in-progress" };
    default:
      return { kind: "unknown-format" };
  }
}
