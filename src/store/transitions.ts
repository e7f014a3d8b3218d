import { type Entry, NO_SIGNATURE } from "./entry.js";
import type { AcquireRequest, Fill, FillOutcome, Grant, Hold, LeaseTimes, Release } from "./store.js";

/** An entry with what only the store needs to know of it. */
export interface Cell extends Entry {
  /** The lease's holder; empty where nobody holds one. */
  readonly token: string;
  /** Whether the end of the lease is to be announced. */
  readonly hasWaiters: boolean;
  readonly dropAt: number;
  /** The open write brackets of a fenced entry. */
  readonly writers: readonly string[];
}

const NEVER = Number.MAX_SAFE_INTEGER;
const EMPTY = new Uint8Array();

const blank: Cell = {
  state: "pending",
  isNegative: false,
  isRescued: false,
  loadMs: 0,
  gen: "",
  token: "",
  untilAt: 0,
  freshUntilAt: 0,
  grantedAt: 0,
  signature: NO_SIGNATURE,
  body: EMPTY,
  hasWaiters: false,
  dropAt: NEVER,
  writers: [],
};

/**
 * The state table of the lease protocol (tier/README.md), as pure functions from a cell to the next one; undefined is "absent".
 * The Redis scripts are the same table in Lua. Only a grant on an absent entry or on a value without a lease mints a `gen`;
 * a takeover keeps it, so that the one who was robbed may still fill for everybody; a fill, an invalidation and every loss end it.
 */
export const transitions = { acquire, fill, renew, release, softInvalidate, openFence, closeFence };

type Acquired = { readonly cell: Cell | undefined; readonly grant: Grant };

function acquire(
  cell: Cell | undefined,
  request: AcquireRequest,
  token: string,
  times: LeaseTimes,
  now: number,
): Acquired {
  const hasLease = cell !== undefined && cell.untilAt > now;
  if (cell?.state === "fenced" && hasLease) return { cell, grant: { kind: "fenced" } };
  if (cell === undefined || cell.state === "fenced" || cell.signature !== request.signature)
    return mint(request, token, times, now);
  switch (cell.state) {
    case "failed":
      return hasLease ? { cell, grant: { kind: "failed", body: cell.body } } : mint(request, token, times, now);
    case "pass":
      return hasLease ? { cell, grant: { kind: "pass" } } : mint(request, token, times, now);
    case "pending":
      return hasLease ? busy(cell, now) : takeOver(cell, token, times, now);
    case "value":
      if (now < cell.freshUntilAt && cell.grantedAt > request.supersededAt)
        return { cell, grant: { kind: "value", entry: cell, now } };
      return hasLease ? busy(cell, now) : takeOver(cell, token, times, now);
  }
}

function mint(request: AcquireRequest, token: string, times: LeaseTimes, now: number): Acquired {
  const untilAt = now + times.leaseMs;
  const { signature } = request;
  return {
    cell: { ...blank, gen: token, token, untilAt, signature, dropAt: untilAt + times.graceMs },
    grant: { kind: "granted", gen: token, token, grantedAt: now, isTakenOver: false },
  };
}

function busy(cell: Cell, now: number): Acquired {
  return {
    cell: { ...cell, hasWaiters: true },
    grant: { kind: "busy", gen: cell.gen, remainingMs: cell.untilAt - now },
  };
}

/** Of a lease that ran out, or of a value that nobody refreshes; the latter has no chain yet, so one begins. */
function takeOver(cell: Cell, token: string, times: LeaseTimes, now: number): Acquired {
  const isTakenOver = cell.gen !== "";
  const gen = isTakenOver ? cell.gen : token;
  const untilAt = now + times.leaseMs;
  const kept = untilAt + times.graceMs;
  const dropAt = cell.state === "pending" ? kept : Math.max(cell.dropAt, kept);
  return {
    cell: { ...cell, gen, token, untilAt, dropAt },
    grant: { kind: "granted", gen, token, grantedAt: now, isTakenOver },
  };
}

function fill(cell: Cell | undefined, fill: Fill, now: number): { cell: Cell | undefined; outcome: FillOutcome } {
  if (
    cell === undefined ||
    cell.gen === "" ||
    cell.gen !== fill.gen ||
    (cell.state !== "pending" && cell.state !== "value")
  )
    return { cell, outcome: "refused" };
  const dropAt = fill.ttlMs === undefined ? NEVER : fill.grantedAt + fill.ttlMs;
  if (dropAt <= now) return { cell: undefined, outcome: "expired" };
  const { isNegative, loadMs, grantedAt, body } = fill;
  const freshUntilAt = grantedAt + fill.freshMs;
  const { signature } = cell;
  return {
    cell: { ...blank, state: "value", isNegative, loadMs, grantedAt, freshUntilAt, signature, body, dropAt },
    outcome: "stored",
  };
}

function renew(cell: Cell | undefined, hold: Hold, times: LeaseTimes, now: number): Cell | undefined {
  if (cell === undefined || cell.token !== hold.token) return undefined;
  const untilAt = now + times.leaseMs;
  return { ...cell, untilAt, dropAt: Math.max(cell.dropAt, untilAt + times.graceMs) };
}

function release(cell: Cell | undefined, release: Release, now: number): { isHeld: boolean; cell: Cell | undefined } {
  if (cell === undefined || cell.token !== release.token) return { isHeld: false, cell };
  const untilAt = now + release.holdMs;
  if (release.outcome === "pass")
    return { isHeld: true, cell: { ...blank, state: "pass", untilAt, dropAt: untilAt, signature: cell.signature } };
  if (cell.state === "value") {
    const freed: Cell = { ...cell, gen: "", token: "", untilAt: 0, hasWaiters: false };
    // A value that is still fresh, since its refresh came early, stays what it was.
    if (release.outcome === "abandoned" || now < cell.freshUntilAt) return { isHeld: true, cell: freed };
    return { isHeld: true, cell: { ...freed, isRescued: true, freshUntilAt: untilAt } };
  }
  if (release.outcome === "abandoned") return { isHeld: true, cell: undefined };
  const { signature } = cell;
  return { isHeld: true, cell: { ...blank, state: "failed", untilAt, dropAt: untilAt, signature, body: release.body } };
}

/** Of anything but a fence. */
function softInvalidate(cell: Cell): Cell | undefined {
  if (cell.state !== "value") return undefined;
  return { ...cell, isRescued: false, gen: "", token: "", untilAt: 0, freshUntilAt: 0, hasWaiters: false };
}

function openFence(cell: Cell | undefined, writer: string, fenceMs: number, now: number): Cell {
  const others = cell?.state === "fenced" ? cell : undefined;
  const untilAt = Math.max(others?.untilAt ?? 0, now + fenceMs);
  const writers = [...(others?.writers ?? []).filter((other) => other !== writer), writer];
  return { ...blank, state: "fenced", untilAt, dropAt: untilAt, writers };
}

function closeFence(cell: Cell, writer: string): Cell | undefined {
  const writers = cell.writers.filter((other) => other !== writer);
  return writers.length === 0 ? undefined : { ...cell, writers };
}
