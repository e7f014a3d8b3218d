import { type Cancel, type Clock, wallTimeOf } from "../../core/base/clock.js";
import type { Store } from "../../core/store/store.js";
import type { Counters } from "../../core/telemetry/counters.js";
import { errorTypeOf } from "../../core/telemetry/error-type.js";
import type { Logger } from "../../core/telemetry/log-listener.js";
import { since, talliesOf } from "./counts.js";
import type { RecentEvents } from "./recent-events.js";
import {
  MINUTE_MS,
  type ProcessInfo,
  type ProcessReport,
  type ReportDetails,
  readReports,
  type Tallies,
  writeReport,
} from "./report-format.js";

/**
 * The reports of all processes that share a store. Each writes one every five seconds: who it is, and while anybody inspects also what it
 * has counted and what has happened. The numbers are absolute ones of one process, so a report that is written twice counts once. The
 * counts of this process are always the live ones.
 */
export class Reports {
  readonly #parts: ReportsParts;
  readonly #startedAt: number;
  /** What was counted in the last minutes, without the one that is not over. */
  readonly #minutes: (readonly [at: number, tallies: Tallies])[] = [];
  /** When the minute began that is not over, and what had been counted before. */
  #minute: readonly [at: number, before: Tallies];
  #isStarted = false;
  #isClosed = false;
  #isWanted = false;
  #writing: Promise<void> | undefined;
  /** What was read of the others, for all who ask at about the same time. */
  #others: Promise<KnownReports> | undefined;
  #othersAt = 0;
  #isTooLarge = false;
  #timer: Cancel | undefined;

  constructor(parts: ReportsParts) {
    this.#parts = parts;
    this.#startedAt = wallTimeOf(parts.clock);
    this.#minute = [minuteAt(this.#startedAt), []];
  }

  /** Begins to count by minute, and to report. */
  start(): void {
    if (this.#isStarted || this.#isClosed) return;
    this.#isStarted = true;
    this.#tick();
  }

  /** Reports for the last time. Never rejects. */
  async close(): Promise<void> {
    this.#timer?.();
    const isFirst = this.#isStarted && !this.#isClosed;
    // A report under way may be older than the last counts.
    await this.#writing;
    if (isFirst) await this.#write();
    this.#isClosed = true;
  }

  /** Returns the reports: that of this process, and then the others, the last one first. Never rejects. */
  async read(): Promise<KnownReports> {
    const { clock } = this.#parts;
    const now = clock.now();
    if (this.#others === undefined || now - this.#othersAt >= SHARED_MS) {
      const others = this.#readOthers();
      this.#others = others;
      this.#othersAt = now;
      // They may be large.
      clock.after(SHARED_MS, () => {
        if (this.#others === others) this.#others = undefined;
      });
    }
    const own = this.#own(true);
    const { reports, missing } = await this.#others;
    return { reports: [own, ...reports], missing };
  }

  async #readOthers(): Promise<KnownReports> {
    const { store, clock, identity } = this.#parts;
    if (store.readReports === undefined)
      return { reports: [], missing: store.isShared === false ? null : "The store keeps no reports of processes." };
    try {
      const { reports, isCut } = readReports(await store.readReports(), wallTimeOf(clock));
      const others = new Map<string, ProcessReport>();
      for (const report of reports)
        if (report.info.id !== identity.id && !others.has(report.info.id)) others.set(report.info.id, report);
      return {
        reports: [...others.values()].sort((a, b) => b.info.reportedAt - a.info.reportedAt),
        missing: isCut ? "The reports of all processes are too large together: some were not read." : null,
      };
    } catch (error) {
      return { reports: [], missing: `The reports of the other processes could not be read: ${errorTypeOf(error)}.` };
    }
  }

  #tick(): void {
    this.#timer = this.#parts.clock.after(REPORT_EVERY_MS, () => this.#tick());
    this.#roll();
    void this.#write();
  }

  /** Never rejects: what could not be written is written the next time. */
  async #write(): Promise<void> {
    if (this.#writing !== undefined) return;
    this.#writing = this.#writeOnce();
    await this.#writing;
    this.#writing = undefined;
  }

  async #writeOnce(): Promise<void> {
    const { store, settings, identity } = this.#parts;
    if (store.writeReport === undefined || settings.report === false) return;
    try {
      const wasWanted = this.#isWanted;
      const write = (isWhole: boolean): Promise<boolean> =>
        (store.writeReport as NonNullable<Store["writeReport"]>)(identity.id, this.#bytes(isWhole), KEPT_MS);
      this.#isWanted = await write(wasWanted);
      // Whoever asks for the first time waits for them.
      if (this.#isWanted && !wasWanted) await write(true);
    } catch {}
  }

  #bytes(isWhole: boolean): Buffer {
    const { info, details } = this.#own(isWhole);
    const bytes = writeReport({ info, details });
    if (details === undefined || bytes.length <= MAX_BYTES) return bytes;
    if (!this.#isTooLarge)
      this.#parts.logger.warn(
        `graphql-cached: the report of this process for the inspection is too large (${bytes.length} bytes), and written without its older events, its minutes, or all of its counts`,
      );
    this.#isTooLarge = true;
    for (const fewer of fewerDetails(details)) {
      const smaller = writeReport({ info, details: fewer });
      if (smaller.length <= MAX_BYTES) return smaller;
    }
    return writeReport({ info });
  }

  #own(isWhole: boolean): ProcessReport {
    const { clock, counters, events, identity } = this.#parts;
    const { id, host, pid, version, nodeVersion } = identity;
    const times = { startedAt: this.#startedAt, reportedAt: wallTimeOf(clock) };
    const info = { id, host, pid, version, nodeVersion, ...times };
    if (!isWhole) return { info };
    this.#roll();
    const total = talliesOf(counters);
    const [at, before] = this.#minute;
    const last = since(before, total);
    const minutes = last.length === 0 ? this.#minutes : [...this.#minutes, [at, last] as const];
    return { info, details: { total, minutes, events: events.newest } };
  }

  /** Ends the minute, if it is over. */
  #roll(): void {
    const now = minuteAt(wallTimeOf(this.#parts.clock));
    const [at, before] = this.#minute;
    if (now === at) return;
    const total = talliesOf(this.#parts.counters);
    const counted = since(before, total);
    if (counted.length > 0) this.#minutes.push([at, counted]);
    while (this.#minutes.length > 0 && (this.#minutes[0]?.[0] ?? 0) <= now - KEPT_MINUTES * MINUTE_MS)
      this.#minutes.shift();
    // The clock was set back. Nobody reads a report with minutes that are to come.
    while ((this.#minutes.at(-1)?.[0] ?? 0) > now) this.#minutes.pop();
    this.#minute = [now, total];
  }
}

/** Returns what to write of what is too large, the most first. */
const fewerDetails = ({ total, minutes, events }: ReportDetails): readonly ReportDetails[] => {
  const newest = events.slice(0, Math.ceil(events.length / 2));
  return [
    { total, minutes, events: newest },
    { total, minutes: [], events: newest },
    { total, minutes: [], events: [] },
  ];
};

const REPORT_EVERY_MS = 5_000;
/** For how long the reports that were read are shown to others who ask. */
const SHARED_MS = 1_000;
/** For how long a process is listed after its last report. */
const KEPT_MS = 60_000;
const KEPT_MINUTES = 10;
/** The largest report that every store takes. */
const MAX_BYTES = 900_000;

const minuteAt = (at: number): number => Math.floor(at / MINUTE_MS) * MINUTE_MS;

/** What is known of the processes. `missing`: why others are not there. */
export interface KnownReports {
  readonly reports: readonly ProcessReport[];
  readonly missing: string | null;
}

/** What of a process does not change. */
export type ProcessIdentity = Omit<ProcessInfo, "startedAt" | "reportedAt">;

export interface ReportsParts {
  readonly clock: Clock;
  readonly counters: Counters;
  readonly events: RecentEvents;
  readonly store: Pick<Store, "isShared" | "writeReport" | "readReports">;
  readonly identity: ProcessIdentity;
  readonly logger: Logger;
  readonly settings: { readonly report: boolean | undefined };
}
