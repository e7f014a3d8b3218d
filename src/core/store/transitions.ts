import { randomBytes } from "node:crypto";
import { type Entry, isForWaiters, NO_EPOCH, TOO_LARGE_MARK } from "./entry.js";
import type {
  AcquireRequest,
  ClockOrigin,
  Grant,
  Hold,
  LeaseTimes,
  Release,
  StoreOutcome,
  StoreRequest,
} from "./store.js";

/**
 * The state table of the lease protocol, PROTOCOL.md, as pure functions from the current entry to
 * the next one. Undefined is an absent key.
 *
 * A store drops an entry at its `dropAt` before it applies a transition (row 18). One that can send
 * wakes sends one after every transition, except `acquire` and `renew`, that has changed an entry
 * with `hasWaiters`. `remove` needs no function: the next entry is undefined (row 16).
 */
export const transitions = { acquire, storeValue, renew, release, softInvalidate };

/** An entry with the fields that only the store needs. */
export interface StoredEntry extends Entry {
  /** The token of the current lease holder, 16 bytes. Empty without a lease. */
  readonly token: string;
  /** Whether a caller was told `busy`, so that a wake must announce the end of the lease. */
  readonly hasWaiters: boolean;
  /** When the store must drop the entry. `Number.MAX_SAFE_INTEGER`: never. */
  readonly dropAt: number;
}

const NEVER = Number.MAX_SAFE_INTEGER;
/** Shorter than any load. A power of two, so that sums of instants and durations stay exact. */
const INSTANT_MS = 1 / 1024;
const NO_LEASE = { gen: "", token: "", untilAt: 0, leasePosition: 0, hasWaiters: false };

const blank: StoredEntry = {
  state: "pending",
  isNegative: false,
  hasRefreshFailed: false,
  loadMs: 0,
  ...NO_LEASE,
  freshUntilAt: 0,
  grantedAt: 0,
  epoch: NO_EPOCH,
  position: 0,
  body: new Uint8Array(),
  dropAt: NEVER,
};

type Acquired = { readonly stored: StoredEntry | undefined; readonly grant: Grant };

/**
 * Rows 1 to 9. `token` is a new random id of 16 bytes, used if the lease is granted. `origin`: the
 * epoch of the clock, and the position that the caller knows or the store has, whichever is
 * earlier. The result `busy` sets `hasWaiters`, which a store without wakes need not write.
 */
function acquire(
  current: StoredEntry | undefined,
  request: AcquireRequest,
  token: string,
  times: LeaseTimes,
  { epoch, position }: ClockOrigin,
  now: number,
): Acquired {
  // Later than the value at the key: those who have ruled that value out know the next one by its
  // later time, and the clock may have stood still, or been set back by a failover.
  const grantedAt = current?.state === "value" ? Math.max(now, current.grantedAt + INSTANT_MS) : now;
  /** Rows 1, 6 and 9 begin a lease chain; rows 3 and 7 keep that of a lease that has ended. */
  const grantOn = (entry: StoredEntry): Acquired => {
    const isTakenOver = entry.gen !== "";
    const leasePosition = isTakenOver ? (entry.leasePosition ?? 0) : position;
    const gen = isTakenOver ? entry.gen : newGen(token, now);
    const untilAt = now + times.leaseMs;
    const graceEndsAt = untilAt + times.graceMs;
    const dropAt = entry.state === "pending" ? graceEndsAt : Math.max(entry.dropAt, graceEndsAt);
    return {
      stored: { ...entry, gen, token, untilAt, leasePosition, dropAt },
      grant: { kind: "granted", gen, token, grantedAt, position: leasePosition },
    };
  };
  const pending: StoredEntry = { ...blank, epoch, position };
  // Row 1, also where something was invalidated.
  if (current === undefined || current.epoch !== epoch || current.position < request.oldestPosition)
    return grantOn(pending);
  // Until `untilAt`, a pending entry or a value has a lease, and any other state lasts.
  const isActive = current.untilAt > now;
  const isFresh = current.state === "value" && now < current.freshUntilAt;
  // Row 4.
  if (isFresh && current.grantedAt > request.supersededAt)
    return { stored: current, grant: { kind: "value", entry: current, now } };
  // Rows 8 and 9.
  if (current.state === "failed" || current.state === "uncacheable") {
    if (!isActive) return grantOn(pending);
    const { state, body } = current;
    return { stored: current, grant: state === "failed" ? { kind: state, body } : { kind: state } };
  }
  // Rows 2 and 5.
  if (isActive) {
    const grant = { kind: "busy", gen: current.gen, remainingMs: current.untilAt - now } as const;
    return { stored: { ...current, hasWaiters: true }, grant };
  }
  return grantOn(isFresh && request.endsFreshness === true ? { ...current, freshUntilAt: 0 } : current);
}

/** Rows 10 and 11. */
function storeValue(
  current: StoredEntry | undefined,
  request: StoreRequest,
  now: number,
): { stored: StoredEntry | undefined; outcome: StoreOutcome } {
  if (current === undefined || current.gen === "" || current.gen !== request.gen)
    return { stored: current, outcome: "refused" };
  // Whole milliseconds, as Redis has them.
  const dropAt = request.ttlMs === undefined ? NEVER : Math.floor(request.grantedAt + request.ttlMs);
  // `grantedAt` may be later than now.
  if (dropAt <= now || request.ttlMs === 0) return { stored: undefined, outcome: "expired" };
  return { stored: { ...newValue(request), ...originOf(current), dropAt }, outcome: "stored" };
}

export function newValue({ grantedAt, freshMs, loadMs, isNegative, body }: StoreRequest): StoredEntry {
  return { ...blank, state: "value", isNegative, loadMs, grantedAt, freshUntilAt: grantedAt + freshMs, body };
}

/** Row 12, also for an expired lease that nobody has taken over. Undefined: it is not held. */
function renew(current: StoredEntry | undefined, hold: Hold, times: LeaseTimes, now: number): StoredEntry | undefined {
  if (current === undefined || current.token !== hold.token) return undefined;
  const untilAt = now + times.leaseMs;
  return { ...current, untilAt, dropAt: Math.max(current.dropAt, untilAt + times.graceMs) };
}

/** Rows 13 to 15. If not `isHeld`, nothing changes. */
function release(
  current: StoredEntry | undefined,
  release: Release,
  now: number,
): { isHeld: boolean; stored: StoredEntry | undefined } {
  if (current === undefined || current.token !== release.token) return { isHeld: false, stored: current };
  const untilAt = now + release.holdMs;
  const endAs = (state: "failed" | "uncacheable") => ({
    isHeld: true,
    stored: { ...blank, ...originOf(current), state, untilAt, dropAt: untilAt, body: release.body },
  });
  // Row 15, which also replaces a stale value.
  if (release.outcome === "uncacheable") return endAs("uncacheable");
  // Row 14.
  const isGone = release.outcome === "gone" && now >= current.freshUntilAt;
  if (current.state === "value" && !isForWaiters(current) && !isGone) {
    const released = { ...current, ...NO_LEASE };
    // An early refresh that fails leaves a value that is still fresh; it stays as it was.
    if (release.outcome === "abandoned" || now < current.freshUntilAt) return { isHeld: true, stored: released };
    return { isHeld: true, stored: { ...released, hasRefreshFailed: true, freshUntilAt: untilAt } };
  }
  // Row 13.
  return release.outcome === "abandoned" ? { isHeld: true, stored: undefined } : endAs("failed");
}

const originOf = ({ epoch, leasePosition = 0 }: StoredEntry): ClockOrigin => ({ epoch, position: leasePosition });

/** Row 17 for a value, and row 16 otherwise. */
function softInvalidate(current: StoredEntry): StoredEntry | undefined {
  if (current.state !== "value" || isForWaiters(current)) return undefined;
  return { ...current, ...NO_LEASE, hasRefreshFailed: false, freshUntilAt: 0 };
}

/**
 * Returns tokens of 16 bytes, as in `latin1`: 8 random ones, and `holder`, the id of a process, or
 * 8 more.
 */
export function newTokens(count: number, holder: string | undefined): readonly string[] {
  const end = holder?.length === HALF_BYTES ? holder : "";
  const length = TOKEN_BYTES - end.length;
  const random = randomBytes(length * count).toString("latin1");
  return Array.from({ length: count }, (_, nth) => random.slice(length * nth, length * (nth + 1)) + end);
}

const TOKEN_BYTES = 16;
/** Of a token, what is random; of a `gen`, what is not. */
const HALF_BYTES = 8;

/** Returns the process that holds a lease, as far as its token says so. */
export const holderOf = (token: string): string => token.slice(HALF_BYTES);

/** Returns the chain of the lease of `token`. A chain that has ended never returns. */
export function newGen(token: string, now: number): string {
  const micros = Buffer.alloc(HALF_BYTES);
  micros.writeBigUInt64BE(BigInt(Math.floor(Math.max(0, now) * 1000)));
  return micros.toString("latin1") + token.slice(0, HALF_BYTES);
}

export const begunAt = (gen: string): number =>
  Number(Buffer.from(gen.slice(0, HALF_BYTES), "latin1").readBigUInt64BE()) / 1000;

export interface Decision<Result> {
  readonly result: Result;
  /** Undefined: nothing changes. `forWaiters`: the next entry if the load that ends has made it. */
  readonly change?: { readonly to: StoredEntry | undefined; readonly forWaiters?: StoredEntry | undefined } | undefined;
}

/** The rows from 10 on as decisions about one entry, for stores that apply them in JavaScript. */
export const decisions = {
  /** `isTooLarge`: the store cannot take the value. Its mark lets callers load without a lease. */
  storeValue(
    before: StoredEntry | undefined,
    request: StoreRequest,
    now: number,
    isTooLarge: (stored: StoredEntry) => boolean,
    slackMs = 0,
  ): Decision<StoreOutcome> {
    const { stored, outcome } = storeValue(before, request, now);
    if (outcome === "refused" || before === undefined) return { result: outcome };
    if (stored === undefined || !isTooLarge(stored))
      return { result: outcome, change: { to: stored, forWaiters: stored } };
    const { key } = request;
    const holdMs = TOO_LARGE_MS + slackMs;
    const mark: Release = { key, token: before.token, outcome: "uncacheable", holdMs, body: TOO_LARGE_MARK };
    return { result: "unavailable", change: { to: release(before, mark, now).stored } };
  },
  renew(before: StoredEntry | undefined, hold: Hold, times: LeaseTimes, now: number): Decision<boolean> {
    const to = renew(before, hold, times, now);
    return to === undefined ? { result: false } : { result: true, change: { to } };
  },
  release(before: StoredEntry | undefined, end: Release, now: number): Decision<boolean> {
    const { isHeld, stored: to } = release(before, end, now);
    if (!isHeld) return { result: false };
    return { result: true, change: { to, forWaiters: to?.state === "failed" ? to : undefined } };
  },
  softInvalidate: (before: StoredEntry | undefined): Decision<void> => ({
    result: undefined,
    change: before && { to: softInvalidate(before) },
  }),
};

const TOO_LARGE_MS = 1_000;
