import { type Cancel, type Clock, wallTimeOf } from "../../core/base/clock.js";
import { messageOf } from "../../core/base/errors.js";
import type { Store } from "../../core/store/store.js";
import type { Counters } from "../../core/telemetry/counters.js";
import { since, talliesOf } from "./counts.js";
import type { RecentEvents } from "./recent-events.js";
import {
  MINUTE_MS,
  type ProcessInfo,
  type ProcessReport,
  readReport,
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
  #isWriting = false;
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
    if (this.#isStarted && !this.#isClosed) await this.#write();
    this.#isClosed = true;
  }

  /** Returns the reports: that of this process, and then the others, the last one first. Never rejects. */
  async read(): Promise<KnownReports> {
    const own = this.#own(true);
    const { store } = this.#parts;
    if (store.readReports === undefined)
      return { reports: [own], missing: store.isShared === false ? null : "The store keeps no reports of processes." };
    try {
      const reports = new Map([[own.info.id, own]]);
      for (const bytes of await store.readReports()) {
        const report = readReport(bytes);
        if (report !== undefined && !reports.has(report.info.id)) reports.set(report.info.id, report);
      }
      const [first = own, ...others] = reports.values();
      return { reports: [first, ...others.sort((a, b) => b.info.reportedAt - a.info.reportedAt)], missing: null };
    } catch (error) {
      return { reports: [own], missing: `The reports of the other processes could not be read: ${messageOf(error)}.` };
    }
  }

  #tick(): void {
    this.#timer = this.#parts.clock.after(REPORT_EVERY_MS, () => this.#tick());
    this.#roll();
    void this.#write();
  }

  /** Never rejects: what could not be written is written the next time. */
  async #write(): Promise<void> {
    const { store, settings, identity } = this.#parts;
    if (store.writeReport === undefined || settings.report === false || this.#isWriting) return;
    this.#isWriting = true;
    try {
      const wasWanted = this.#isWanted;
      const write = (isWhole: boolean): Promise<boolean> =>
        (store.writeReport as NonNullable<Store["writeReport"]>)(identity.id, this.#bytes(isWhole), KEPT_MS);
      this.#isWanted = await write(wasWanted);
      // Whoever asks for the first time waits for them.
      if (this.#isWanted && !wasWanted) await write(true);
    } catch {}
    this.#isWriting = false;
  }

  #bytes(isWhole: boolean): Buffer {
    const bytes = writeReport(this.#own(isWhole));
    return bytes.length > MAX_BYTES ? writeReport(this.#own(false)) : bytes;
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
    this.#minute = [now, total];
  }
}

const REPORT_EVERY_MS = 5_000;
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
  readonly settings: { readonly report: boolean | undefined };
}
