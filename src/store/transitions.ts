import { type Entry, NO_SIGNATURE } from "./entry.js";
import type { AcquireRequest, Grant, Hold, LeaseTimes, Release, StoreOutcome, StoreRequest } from "./store.js";

/** An entry with what only the store needs to know of it. */
export interface StoredEntry extends Entry {
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

const blank: StoredEntry = {
  state: "pending",
  isNegative: false,
  hasRefreshFailed: false,
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
 * The state table of the lease protocol (tier/README.md), as pure functions from a stored to the next one; undefined is "absent".
 * The Redis scripts are the same table in Lua. Only a grant on an absent entry or on a value without a lease mints a `gen`;
 * a takeover keeps it, so that the one who was previous may still fill for everybody; a fill, an invalidation and every loss end it.
 */
export const transitions = { acquire, storeValue, renew, release, softInvalidate, beginWrite, endWrite };

type Acquired = { readonly stored: StoredEntry | undefined; readonly grant: Grant };

function acquire(
  stored: StoredEntry | undefined,
  request: AcquireRequest,
  token: string,
  times: LeaseTimes,
  now: number,
): Acquired {
  const hasLease = stored !== undefined && stored.untilAt > now;
  if (stored?.state === "write-in-progress" && hasLease) return { stored, grant: { kind: "write-in-progress" } };
  if (stored === undefined || stored.state === "write-in-progress" || stored.signature !== request.signature)
    return mint(request, token, times, now);
  switch (stored.state) {
    case "failed":
      return hasLease ? { stored, grant: { kind: "failed", body: stored.body } } : mint(request, token, times, now);
    case "uncacheable":
      return hasLease ? { stored, grant: { kind: "uncacheable" } } : mint(request, token, times, now);
    case "pending":
      return hasLease ? busy(stored, now) : takeOver(stored, token, times, now);
    case "value":
      if (now < stored.freshUntilAt && stored.grantedAt > request.supersededAt)
        return { stored, grant: { kind: "value", entry: stored, now } };
      return hasLease ? busy(stored, now) : takeOver(stored, token, times, now);
  }
}

function mint(request: AcquireRequest, token: string, times: LeaseTimes, now: number): Acquired {
  const untilAt = now + times.leaseMs;
  const { signature } = request;
  return {
    stored: { ...blank, gen: token, token, untilAt, signature, dropAt: untilAt + times.graceMs },
    grant: { kind: "granted", gen: token, token, grantedAt: now, isTakenOver: false },
  };
}

function busy(stored: StoredEntry, now: number): Acquired {
  return {
    stored: { ...stored, hasWaiters: true },
    grant: { kind: "busy", gen: stored.gen, remainingMs: stored.untilAt - now },
  };
}

/** Of a lease that ran out, or of a value that nobody refreshes; the latter has no chain yet, so one begins. */
function takeOver(stored: StoredEntry, token: string, times: LeaseTimes, now: number): Acquired {
  const isTakenOver = stored.gen !== "";
  const gen = isTakenOver ? stored.gen : token;
  const untilAt = now + times.leaseMs;
  const kept = untilAt + times.graceMs;
  const dropAt = stored.state === "pending" ? kept : Math.max(stored.dropAt, kept);
  return {
    stored: { ...stored, gen, token, untilAt, dropAt },
    grant: { kind: "granted", gen, token, grantedAt: now, isTakenOver },
  };
}

function storeValue(
  stored: StoredEntry | undefined,
  request: StoreRequest,
  now: number,
): { stored: StoredEntry | undefined; outcome: StoreOutcome } {
  if (
    stored === undefined ||
    stored.gen === "" ||
    stored.gen !== request.gen ||
    (stored.state !== "pending" && stored.state !== "value")
  )
    return { stored, outcome: "refused" };
  const dropAt = request.ttlMs === undefined ? NEVER : request.grantedAt + request.ttlMs;
  if (dropAt <= now) return { stored: undefined, outcome: "expired" };
  const { isNegative, loadMs, grantedAt, body } = request;
  const freshUntilAt = grantedAt + request.freshMs;
  const { signature } = stored;
  return {
    stored: { ...blank, state: "value", isNegative, loadMs, grantedAt, freshUntilAt, signature, body, dropAt },
    outcome: "stored",
  };
}

function renew(stored: StoredEntry | undefined, hold: Hold, times: LeaseTimes, now: number): StoredEntry | undefined {
  if (stored === undefined || stored.token !== hold.token) return undefined;
  const untilAt = now + times.leaseMs;
  return { ...stored, untilAt, dropAt: Math.max(stored.dropAt, untilAt + times.graceMs) };
}

function release(
  stored: StoredEntry | undefined,
  release: Release,
  now: number,
): { isHeld: boolean; stored: StoredEntry | undefined } {
  if (stored === undefined || stored.token !== release.token) return { isHeld: false, stored };
  const untilAt = now + release.holdMs;
  if (release.outcome === "uncacheable")
    return {
      isHeld: true,
      stored: { ...blank, state: "uncacheable", untilAt, dropAt: untilAt, signature: stored.signature },
    };
  if (stored.state === "value") {
    const freed: StoredEntry = { ...stored, gen: "", token: "", untilAt: 0, hasWaiters: false };
    // A value that is still fresh, since its refresh came early, stays what it was.
    if (release.outcome === "abandoned" || now < stored.freshUntilAt) return { isHeld: true, stored: freed };
    return { isHeld: true, stored: { ...freed, hasRefreshFailed: true, freshUntilAt: untilAt } };
  }
  if (release.outcome === "abandoned") return { isHeld: true, stored: undefined };
  const { signature } = stored;
  return {
    isHeld: true,
    stored: { ...blank, state: "failed", untilAt, dropAt: untilAt, signature, body: release.body },
  };
}

/** Of anything but a writeMark. */
function softInvalidate(stored: StoredEntry): StoredEntry | undefined {
  if (stored.state !== "value") return undefined;
  return { ...stored, hasRefreshFailed: false, gen: "", token: "", untilAt: 0, freshUntilAt: 0, hasWaiters: false };
}

function beginWrite(stored: StoredEntry | undefined, writer: string, writeGuardMs: number, now: number): StoredEntry {
  const others = stored?.state === "write-in-progress" ? stored : undefined;
  const untilAt = Math.max(others?.untilAt ?? 0, now + writeGuardMs);
  const writers = [...(others?.writers ?? []).filter((other) => other !== writer), writer];
  return { ...blank, state: "write-in-progress", untilAt, dropAt: untilAt, writers };
}

function endWrite(stored: StoredEntry, writer: string): StoredEntry | undefined {
  const writers = stored.writers.filter((other) => other !== writer);
  return writers.length === 0 ? undefined : { ...stored, writers };
}
