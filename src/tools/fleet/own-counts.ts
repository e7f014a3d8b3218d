import type { Channel } from "../../core/telemetry/channel.js";
import type { Counters } from "../../core/telemetry/counters.js";
import { HotKeys } from "../../core/telemetry/hot-keys.js";
import type { Counted } from "./report-format.js";
import { addTallies, type SumOfTallies, since, type Tallies, talliesOf } from "./tally.js";
import { bucketAt, isIn, keepMsOf, partOf, WINDOWS, type Window, type WindowName } from "./windows.js";

/**
 * What this process has counted: since its start, and in the buckets of the windows. A bucket says from when to when it was
 * counted, so a window consists of whole buckets and its true beginning is known.
 */
export class OwnCounts {
  readonly #counters: Counters;
  readonly #channel: Channel;
  #startedAt: number;
  /** Up to when everything is in buckets. */
  #rolledAt: number;
  #rolled: Tallies = new Map();
  #buckets: Bucket[] = [];
  /** The keys that were read since hot keys are counted. */
  #hot: OwnHot | undefined;
  #isTotalNew = true;

  /** `startedAt`: when the counters began. All times are on the store's clock. */
  constructor(counters: Counters, channel: Channel, startedAt: number) {
    this.#counters = counters;
    this.#channel = channel;
    this.#startedAt = startedAt;
    this.#rolledAt = startedAt;
  }

  /** Moves all times by `ms`: the store's clock has become known. */
  moveBy(ms: number): void {
    this.#startedAt += ms;
    this.#rolledAt += ms;
    const old = this.#buckets;
    this.#buckets = [];
    for (const { window, fromAt, toAt, tallies, hot } of old) {
      const bucket = this.#bucketOf(window, fromAt + ms, toAt + ms);
      addTallies(bucket.tallies, tallies);
      bucket.hot = added(bucket.hot, hot && { fromAt: hot.fromAt + ms, keys: hot.keys });
    }
    this.#hot = this.#hot && { ...this.#hot, fromAt: this.#hot.fromAt + ms };
  }

  /** Begins or ends to count reads by key. What was counted before the end is dropped. */
  countHotKeys(isWanted: boolean, now: number): void {
    if (isWanted === (this.#channel.hotKeys !== undefined)) return;
    // So that the reads by key begin with a bucket.
    this.roll(now);
    this.#channel.hotKeys = isWanted ? new HotKeys(KEPT_KEYS) : undefined;
    if (isWanted) return;
    this.#hot = undefined;
    for (const bucket of this.#buckets) {
      if (bucket.hot === undefined) continue;
      bucket.hot = undefined;
      bucket.isNew = true;
    }
  }

  /** Puts what was counted since the last time into the buckets. */
  roll(now: number): void {
    const fromAt = this.#rolledAt;
    const toAt = Math.max(now, fromAt);
    const counted = talliesOf(this.#counters);
    const news = since(this.#rolled, counted);
    const hot = this.#takeHotKeys(fromAt);
    if (news.size > 0) {
      for (const window of Object.values(WINDOWS)) {
        const bucket = this.#bucketOf(window, fromAt, toAt);
        addTallies(bucket.tallies, news);
        bucket.hot = added(bucket.hot, hot);
      }
      this.#hot = added(this.#hot, hot);
      this.#isTotalNew = true;
    }
    this.#rolled = counted;
    this.#rolledAt = toAt;
    this.#buckets = this.#buckets.filter((bucket) => toAt - bucket.toAt < keepMsOf(bucket.window));
  }

  /** Returns what was counted in a window that ends now. `roll` comes first. */
  in(windowName: WindowName): readonly OwnCounted[] {
    if (windowName === "SINCE_START") return [this.#total()];
    const window = WINDOWS[windowName];
    return this.#buckets.filter((bucket) => bucket.window === window && isIn(window, bucket.toAt, this.#rolledAt));
  }

  /** Returns the parts that have changed since the last call. Without `hasTime`, the store's clock is not known yet. */
  takeNew(hasTime: boolean): readonly OwnPart[] {
    const parts = (hasTime ? this.#buckets : []).flatMap((bucket): OwnPart[] => {
      if (!bucket.isNew) return [];
      bucket.isNew = false;
      const retry = (): void => {
        bucket.isNew = true;
      };
      const { window, number } = bucket;
      return [{ name: partOf(window, number), counted: bucket, keepMs: keepMsOf(window), retry }];
    });
    if (!this.#isTotalNew) return parts;
    this.#isTotalNew = false;
    const retry = (): void => {
      this.#isTotalNew = true;
    };
    return [...parts, { name: TOTAL, counted: this.#total(), keepMs: TOTAL_KEPT_MS, retry }];
  }

  /** Makes sure that the total is written again before it expires. */
  renewTotal(): void {
    this.#isTotalNew = true;
  }

  /** Makes sure that everything is written again: the store has lost it. */
  renewAll(): void {
    this.#isTotalNew = true;
    for (const bucket of this.#buckets) bucket.isNew = true;
  }

  #total(): OwnCounted {
    const tallies = talliesOf(this.#counters);
    return { fromAt: this.#startedAt, toAt: this.#rolledAt, tallies, hot: this.#hot };
  }

  /** Returns the bucket for what was counted between two instants. It counts as new from now on. */
  #bucketOf(window: Window, fromAt: number, toAt: number): Bucket {
    const number = bucketAt(fromAt, toAt, window);
    const last = this.#buckets.findLast((bucket) => bucket.window === window);
    if (last?.number === number) {
      last.toAt = toAt;
      last.isNew = true;
      return last;
    }
    const bucket: Bucket = { window, number, fromAt, toAt, tallies: new Map(), hot: undefined, isNew: true };
    this.#buckets.push(bucket);
    return bucket;
  }

  #takeHotKeys(fromAt: number): OwnHot | undefined {
    const keys = this.#channel.hotKeys;
    if (keys === undefined || keys.reads === 0) return undefined;
    this.#channel.hotKeys = new HotKeys(KEPT_KEYS);
    return { fromAt, keys };
  }
}

const KEPT_KEYS = 500;

/** Reads that were counted by key, from `fromAt` on. */
interface OwnHot {
  readonly fromAt: number;
  readonly keys: HotKeys;
}

/** What this process has counted, with the inputs of the hot keys. */
export interface OwnCounted extends Counted {
  readonly hot: OwnHot | undefined;
}

interface Bucket extends OwnCounted {
  toAt: number;
  readonly window: Window;
  readonly number: number;
  readonly tallies: SumOfTallies;
  hot: OwnHot | undefined;
  /** Whether it has changed since it was written. */
  isNew: boolean;
}

export interface OwnPart {
  readonly name: string;
  readonly counted: OwnCounted;
  readonly keepMs: number;
  /** Called when the part has to be written once more. */
  readonly retry: () => void;
}

function added(to: OwnHot | undefined, hot: OwnHot | undefined): OwnHot | undefined {
  if (hot === undefined) return to;
  const sum = to ?? { fromAt: hot.fromAt, keys: new HotKeys(KEPT_KEYS) };
  sum.keys.merge(hot.keys);
  return sum;
}

export const TOTAL = "total";
/** Longer than a process is listed, by more than the time after which the part is written again. */
const TOTAL_KEPT_MS = 110 * 60_000;
export const RENEW_TOTAL_MS = 30 * 60_000;
