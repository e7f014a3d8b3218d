import { type Cancel, type Clock, wallTimeOf, within } from "../../core/base/clock.js";
import { messageOf } from "../../core/base/errors.js";
import {
  MAX_REPORTING,
  type ReportingProcess,
  type ReportReply,
  type ReportStore,
} from "../../core/store/report-store.js";
import type { Channel } from "../../core/telemetry/channel.js";
import type { Counters } from "../../core/telemetry/counters.js";
import { type HotKey, HotKeys, type HotKeysSummary } from "../../core/telemetry/hot-keys.js";
import { INFO, isDead, missingOf, type OtherReport, partNamesOf, readReport } from "./other-report.js";
import { OwnCounts, RENEW_TOTAL_MS, TOTAL } from "./own-counts.js";
import { type Counted, type ProcessInfo, writeCounted, writeInfo } from "./report-format.js";
import { addTallies, type SumOfTallies, type Tallies } from "./tally.js";
import { WINDOWS, type WindowName } from "./windows.js";

/**
 * The statistics of all processes that share a store. Each reports what it has counted in the buckets of the windows,
 * and since its start: absolute numbers of its own, so a report that is written twice counts once. The counts of this process are
 * always the live ones.
 */
export class Fleet {
  /** Returns the live state of this process for its reports: plain data without user data. Set by the assembly. */
  stateOf: (() => unknown) | undefined;
  readonly #parts: FleetParts;
  readonly #own: OwnCounts;
  readonly #startedAt: number;
  #isStarted = false;
  #isClosed = false;
  #timer: Cancel | undefined;
  #sequence = 0;
  #writing: Promise<void> = Promise.resolve();
  #isWriting = false;
  /** The store's clock minus that of this process. Undefined until the store has replied. */
  #offsetMs: number | undefined;
  #totalRenewedAt = 0;
  /** Until when reads are counted by key, on the clock of this process. */
  #hotKeysUntilAt = Number.NEGATIVE_INFINITY;

  constructor(parts: FleetParts) {
    this.#parts = parts;
    this.#startedAt = wallTimeOf(parts.clock);
    // Instants before the first reply of the store are moved by the offset that it shows.
    this.#own = new OwnCounts(parts.counters, parts.channel, parts.clock.now());
  }

  /** Begins to keep the windows of this process, and to report them. Called once there is a reader of the statistics. */
  start(): void {
    if (this.#isStarted || this.#isClosed) return;
    this.#isStarted = true;
    this.#tick();
  }

  /** Reports for the last time. Never rejects. */
  async close(): Promise<void> {
    this.#timer?.();
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (!this.#isStarted) return;
    await this.#writing;
    // The first report only finds out the time.
    if (this.#offsetMs === undefined) await this.#write();
    this.#own.roll(this.#now());
    await this.#write();
    this.#own.countHotKeys(false, this.#now());
  }

  /** Returns what the fleet has counted. Never rejects. */
  async counts(windowName: WindowName): Promise<FleetCounts> {
    const others = await this.#others(windowName);
    const now = this.#now();
    this.#own.roll(now);
    // Its own come first: they go on counting between the turns.
    const all = [...this.#own.in(windowName), ...others.reports.flatMap(({ counted }) => counted)];
    const tallies: SumOfTallies = new Map();
    await this.#inTurns(all, (counted) => addTallies(tallies, counted.tallies));
    const sinceAt = this.#sinceOf(windowName, all, now, others.reports);
    const incomplete = others.reports.flatMap((report) => {
      const missing = missingOf(report, others.now);
      // What was counted before the window would not be in it anyway.
      const reaches = report.reportedAt + (report.info?.reportEveryMs ?? 0) > sinceAt;
      return missing === undefined || !reaches ? [] : [`process ${report.id}: ${missing}`];
    });
    return {
      tallies,
      sinceAt: this.#wallTimeOf(sinceAt),
      untilAt: this.#wallTimeOf(now),
      processes: 1 + others.reports.filter(({ info }) => info !== undefined).length,
      missing: [...others.missing, ...incomplete],
    };
  }

  /**
   * Returns the 100 keys that were read most, of one field or loader if `coordinate` is given. From now on, and for ten minutes after the last call, all processes count reads by
   * key; each learns of it with its next report. Never rejects.
   */
  async hotKeys(windowName: WindowName, coordinate?: string): Promise<FleetHotKeys> {
    this.#countHotKeysUntil(this.#parts.clock.now() + HOT_KEYS_MS);
    try {
      if (this.#reports !== undefined) await this.#limited(this.#reports.ask(HOT_KEYS_MS), FIRST_BUDGETS);
    } catch {
      // The others are not asked, and what they have counted is shown.
    }
    const others = await this.#others(windowName);
    const now = this.#now();
    this.#own.roll(now);
    const counted = [...this.#own.in(windowName), ...others.reports.flatMap((report) => report.counted)];
    const hot = counted.flatMap((one) => one.hot ?? []);
    const sinceAt = this.#wallTimeOf(Math.min(now, ...hot.map(({ fromAt }) => fromAt)));
    // The keys are distributed over several sums, so that none takes long to sort.
    const keyCount = hot.reduce((count, { keys }) => count + keys.keys.length, 0);
    const sumCount = Math.max(1, Math.min(MAX_SUMS, Math.ceil(keyCount / KEYS_PER_SUM)));
    const sums = Array.from({ length: sumCount }, () => new HotKeys(Number.POSITIVE_INFINITY));
    await this.#inTurns(hot, ({ keys }) => mergeInto(sums, keys));
    const most: HotKey[] = [];
    await this.#inTurns(
      sums,
      (sum) => {
        const keys = sum.keys.filter((key) => coordinate === undefined || key.coordinate === coordinate);
        most.push(...keys.slice(0, MAX_HOT_KEYS));
      },
      1,
    );
    most.sort((one, other) => other.reads - one.reads);
    const [{ reads, floor }] = sums as [HotKeys];
    return { reads, floor, keys: most.slice(0, MAX_HOT_KEYS), sinceAt };
  }

  /** Returns the processes of the last 70 minutes: this one, and then the others, the last report first. Never rejects. */
  async processes(): Promise<readonly FleetProcess[]> {
    const others = await this.#others(undefined);
    const { id: _, ...identity } = this.#parts.identity;
    const own: FleetProcess = {
      ...identity,
      id: this.#parts.identity.id,
      isThis: true,
      startedAt: this.#startedAt,
      reportedAt: wallTimeOf(this.#parts.clock),
      isAlive: !this.#isClosed,
      missing: others.missing[0],
      state: this.stateOf?.(),
    };
    const described = others.reports.map((report): FleetProcess => {
      const { id, info, reportedAt } = report;
      return {
        ...(info ?? UNKNOWN),
        id,
        isThis: false,
        reportedAt: this.#wallTimeOf(reportedAt),
        isAlive: info?.isClosed !== true && !isDead(report, others.now),
        missing: missingOf(report, others.now),
      };
    });
    return [own, ...described];
  }

  /** Where this process reports. Undefined: nowhere. */
  get #reports(): ReportStore | undefined {
    const { store, settings } = this.#parts;
    return settings.report === true || (settings.report === undefined && store.isShared !== false)
      ? store.reports
      : undefined;
  }

  #tick(): void {
    this.#timer = this.#parts.clock.after(this.#parts.settings.reportEveryMs, () => this.#tick());
    this.#own.roll(this.#now());
    this.#own.countHotKeys(this.#parts.clock.now() < this.#hotKeysUntilAt, this.#now());
    // The last one may take longer than the interval, if the store is slow.
    if (!this.#isWriting) this.#writing = this.#write();
  }

  /** Writes what is new. Never rejects: what could not be written is written the next time. */
  async #write(): Promise<void> {
    const reports = this.#reports;
    if (reports === undefined) return;
    const { clock, identity } = this.#parts;
    if (clock.now() - this.#totalRenewedAt >= RENEW_TOTAL_MS) this.#own.renewTotal();
    // The buckets are numbered by the store's clock, which the first reply shows.
    const news = this.#own.takeNew(this.#offsetMs !== undefined);
    this.#isWriting = true;
    try {
      const counted = news.map(({ name, keepMs, counted: own }) => {
        const hot = own.hot && { fromAt: own.hot.fromAt, keys: own.hot.keys.top(REPORTED_KEYS) };
        return { name, keepMs, bytes: writeCounted({ ...own, hot }) };
      });
      const info = { name: INFO, keepMs: INFO_KEPT_MS, bytes: writeInfo(this.#info()) };
      const report = { process: identity.id, sequence: ++this.#sequence, parts: [info, ...counted] };
      const reply = await this.#limited(reports.write(report), this.#isClosed ? FIRST_BUDGETS : BUDGETS);
      this.#learn(reply);
      if (news.some(({ name }) => name === TOTAL)) this.#totalRenewedAt = clock.now();
      if (reply.isFirst && report.sequence > 1) this.#own.renewAll();
    } catch {
      for (const { retry } of news) retry();
    }
    this.#isWriting = false;
  }

  /** Takes the time and the wishes of the fleet from a reply of the store. */
  #learn({ now, askedUntilAt }: ReportReply): void {
    const { clock } = this.#parts;
    if (this.#offsetMs === undefined) this.#own.moveBy(now - clock.now());
    this.#offsetMs = now - clock.now();
    if (askedUntilAt > now) this.#countHotKeysUntil(clock.now() + askedUntilAt - now);
  }

  #countHotKeysUntil(untilAt: number): void {
    if (this.#isClosed) return;
    this.#hotKeysUntilAt = Math.max(this.#hotKeysUntilAt, untilAt);
    this.#own.countHotKeys(true, this.#now());
  }

  #info(): ProcessInfo {
    const { id: _, ...identity } = this.#parts.identity;
    return {
      ...identity,
      startedAt: this.#startedAt,
      reportEveryMs: this.#parts.settings.reportEveryMs,
      isClosed: this.#isClosed,
      ...(this.stateOf === undefined ? {} : { state: this.stateOf() }),
    };
  }

  /** Reads what the others have reported of a window; undefined: only what they say of themselves. */
  async #others(windowName: WindowName | undefined): Promise<Others> {
    const { store, settings, identity } = this.#parts;
    const none = (missing: string): Others => ({ now: this.#now(), reports: [], missing: [missing] });
    if (store.isShared === false && settings.report !== true) return { now: this.#now(), reports: [], missing: [] };
    if (store.reports === undefined) return none("all other processes: the store keeps no reports of processes");
    try {
      const list = await this.#limited(store.reports.list(), FIRST_BUDGETS);
      if (this.#offsetMs === undefined) this.#learn(list);
      const names = windowName === undefined ? [] : partNamesOf(windowName, list.now);
      const processes = list.processes.filter(({ id }) => id !== identity.id);
      const wanted = processes.flatMap(({ id }) => [INFO, ...names].map((part) => ({ process: id, part })));
      const found = await this.#limited(store.reports.read(wanted));
      const reports: OtherReport[] = [];
      const partCount = 1 + names.length;
      const read = (process: ReportingProcess, nth: number): void => {
        const [info, ...parts] = found.slice(nth * partCount, (nth + 1) * partCount);
        reports.push(readReport(process, info, parts, windowName, list.now));
      };
      await this.#inTurns(processes, read, Math.max(1, Math.floor(PARTS_PER_TURN / partCount)));
      return { now: list.now, reports, missing: list.processes.length < MAX_REPORTING ? [] : [TOO_MANY] };
    } catch (error) {
      return none(`all other processes: their reports could not be read: ${messageOf(error)}`);
    }
  }

  #sinceOf(windowName: WindowName, all: readonly Counted[], now: number, reports: readonly OtherReport[]): number {
    if (windowName !== "SINCE_START")
      return Math.min(now - WINDOWS[windowName].windowMs, ...all.map(({ fromAt }) => fromAt));
    // The earliest start of a process that is counted.
    const starts = reports.flatMap(({ info }) => (info === undefined ? [] : [info.startedAt]));
    return now - (wallTimeOf(this.#parts.clock) - Math.min(this.#startedAt, ...starts));
  }

  #now(): number {
    return this.#parts.clock.now() + (this.#offsetMs ?? 0);
  }

  /** Returns an instant on the store's clock as milliseconds since 1970 on the clock of this process. */
  #wallTimeOf(at: number): number {
    return wallTimeOf(this.#parts.clock) + at - this.#now();
  }

  /** Calls `run` for each item, with other work of the process between the turns. The first turn begins at once. */
  async #inTurns<Item>(
    items: readonly Item[],
    run: (item: Item, nth: number) => void,
    perTurn = PARTS_PER_TURN,
  ): Promise<void> {
    for (const [nth, item] of items.entries()) {
      if (nth > 0 && nth % perTurn === 0) await new Promise<void>((resolve) => this.#parts.clock.afterTick(resolve));
      run(item, nth);
    }
  }

  #limited<T>(work: Promise<T>, budgets = BUDGETS): Promise<T> {
    const { clock, settings } = this.#parts;
    const ms = budgets * settings.storeTimeoutMs;
    const otherwise = (): Promise<never> => Promise.reject(new Error(`no reply within ${ms} ms`));
    return within(clock, work, { ms, otherwise });
  }
}

/** The settings of `Fleet`. The resolved options satisfy this interface. */
export interface FleetSettings {
  /** Undefined: once there is a reader of the statistics in this process, if the store is shared. */
  readonly report: boolean | undefined;
  readonly reportEveryMs: number;
  readonly storeTimeoutMs: number;
}

/** What of a process does not change. */
export type ProcessIdentity = Pick<ProcessInfo, "host" | "pid" | "version" | "nodeVersion"> & { readonly id: string };

export interface FleetParts {
  readonly clock: Clock;
  readonly counters: Counters;
  readonly channel: Channel;
  readonly store: { readonly reports?: ReportStore | undefined; readonly isShared?: boolean | undefined };
  readonly identity: ProcessIdentity;
  readonly settings: FleetSettings;
}

/** What the fleet has counted in a window. Times are those of this process, in milliseconds since 1970. */
export interface FleetCounts {
  readonly tallies: Tallies;
  readonly sinceAt: number;
  readonly untilAt: number;
  /** The number of processes whose counts are in it. */
  readonly processes: number;
  /** What is not in it, in words. */
  readonly missing: readonly string[];
}

export interface FleetHotKeys extends HotKeysSummary {
  readonly sinceAt: number;
}

/** A process as the inspection shows it. Times as in `FleetCounts`. */
export interface FleetProcess extends Omit<ProcessInfo, "reportEveryMs" | "isClosed"> {
  readonly id: string;
  readonly isThis: boolean;
  readonly reportedAt: number;
  readonly isAlive: boolean;
  /** What the answer lacks of it, in words. */
  readonly missing: string | undefined;
}

/** What the other processes have reported, or why that is not known. */
interface Others {
  readonly now: number;
  readonly reports: readonly OtherReport[];
  readonly missing: readonly string[];
}

/** Number of store budgets that reading or writing reports may take: they are large, and no request waits for them. */
const BUDGETS = 10;
/** The same for what comes first, and is small, and for the last report: a store that is away shows by then. */
const FIRST_BUDGETS = 2;
/** How long reads are counted by key after somebody has asked for hot keys. */
const HOT_KEYS_MS = 10 * 60_000;
const REPORTED_KEYS = 100;
/** How many parts of reports are decoded, or added up, in one turn of the event loop. */
const PARTS_PER_TURN = 20;
export const MAX_HOT_KEYS = REPORTED_KEYS;

/** How many keys a sum of reads by key has, if there is more than one sum. */
const KEYS_PER_SUM = 2_000;
const MAX_SUMS = 64;

/** Adds a summary to the sums, each of its keys to the one that has all reads of the key. The first one has those of no key as well. */
function mergeInto(sums: readonly HotKeys[], { reads, floor, keys }: HotKeysSummary): void {
  const bySum = sums.map((): HotKey[] => []);
  for (const key of keys) bySum[numberOf(key) % sums.length]?.push(key);
  for (const [nth, sum] of sums.entries()) sum.merge({ reads: nth === 0 ? reads : 0, floor, keys: bySum[nth] ?? [] });
}

/** Returns a number that is the same for a key in every report. */
function numberOf({ digest }: HotKey): number {
  let hash = 0;
  for (let nth = 0; nth < 8; nth++) hash = (hash * 31 + (digest.charCodeAt(nth) || 0)) % 65_536;
  return hash;
}

const INFO_KEPT_MS = 70 * 60_000;

const TOO_MANY = `processes other than the ${MAX_REPORTING} that have reported last, if there are any`;

/** What is shown of a process whose description cannot be read. */
const UNKNOWN = { host: "", pid: 0, version: "", nodeVersion: "", startedAt: 0 };
