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
 * The reports of all processes that share a store. Each writes one every five seconds: who it is,
 * and while anybody inspects also what it has counted and what has happened. The numbers are
 * absolute ones of one process, so a report that is written twice counts once. The counts of this
 * process are always the live ones.
 */
export class Reports {
  readonly #startedAt: number;
  /** Without the one that is not over. */
  #minutes: ReportDetails["minutes"] = [];
  /** The one that is not over: when it began, and what had been counted before. */
  #minute: readonly [at: number, before: Tallies];
  #state: "new" | "running" | "closed" = "new";
  #isWanted = false;
  #writing: Promise<void> | undefined;
  /** What was read of the others, for all who ask at about the same time. */
  #others: Promise<KnownReports> | undefined;
  #othersAt = 0;
  #isTooLarge = false;
  #timer: Cancel | undefined;

  constructor(private readonly parts: ReportsParts) {
    this.#startedAt = wallTimeOf(parts.clock);
    this.#minute = [minuteAt(this.#startedAt), []];
  }

  start(): void {
    if (this.#state !== "new") return;
    this.#state = "running";
    this.#tick();
  }

  /** Reports for the last time. Never rejects. */
  async close(): Promise<void> {
    this.#timer?.();
    const wasRunning = this.#state === "running";
    this.#state = "closed";
    // A report under way may be older than the last counts.
    await this.#writing;
    if (wasRunning) await this.#write();
  }

  /** Returns that of this process, and then the others, the last one first. Never rejects. */
  async read(): Promise<KnownReports> {
    const { clock } = this.parts;
    const now = clock.now();
    if (this.#others === undefined || now - this.#othersAt >= SHARED_MS) {
      const others = this.#readOthers();
      this.#others = others;
      this.#othersAt = now;
      // They may be large. In Cloudflare Workers, a timer does not outlive its request.
      clock.after(SHARED_MS, () => {
        if (this.#others === others) this.#others = undefined;
      });
    }
    const own = this.#own(true);
    const { reports, missing } = await this.#others;
    return { reports: [own, ...reports], missing };
  }

  async #readOthers(): Promise<KnownReports> {
    const { store, clock, identity } = this.parts;
    if (store.readReports === undefined)
      return { reports: [], missing: store.isShared === false ? null : "The store keeps no reports of processes." };
    try {
      const written = await store.readReports();
      const { reports, isCut } = readReports(written, wallTimeOf(clock));
      const unread = written.length - reports.length;
      const others = new Map<string, ProcessReport>();
      for (const report of reports)
        if (report.info.id !== identity.id && !others.has(report.info.id)) others.set(report.info.id, report);
      return {
        reports: [...others.values()].sort((a, b) => b.info.reportedAt - a.info.reportedAt),
        missing: isCut
          ? "The reports of all processes are too large together: some were not read."
          : unread > 0
            ? `Not all reports could be read: ${unread} have another form, such as those of another release.`
            : null,
      };
    } catch (error) {
      return { reports: [], missing: `The reports of the other processes could not be read: ${errorTypeOf(error)}.` };
    }
  }

  #tick(): void {
    this.#timer = this.parts.clock.after(REPORT_EVERY_MS, () => this.#tick());
    if (minuteAt(wallTimeOf(this.parts.clock)) !== this.#minute[0]) this.#counted();
    void this.#write();
  }

  /** Never rejects: what could not be written is written the next time. */
  #write(): Promise<void> {
    this.#writing ??= this.#writeOnce().finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #writeOnce(): Promise<void> {
    const { store, settings, identity } = this.parts;
    if (settings.report === false) return;
    const write = async (isWhole: boolean): Promise<boolean> =>
      (await store.writeReport?.(identity.id, this.#bytes(isWhole), KEPT_MS)) === true;
    try {
      const wasWanted = this.#isWanted;
      this.#isWanted = await write(wasWanted);
      // Whoever asks for the first time waits for them.
      if (this.#isWanted && !wasWanted) await write(true);
    } catch {}
  }

  /** Writes of what is too large as much as there is room for. */
  #bytes(isWhole: boolean): Buffer {
    const { info, details } = this.#own(isWhole);
    if (details === undefined) return writeReport({ info });
    const events = details.events.slice(0, Math.ceil(details.events.length / 2));
    for (const fewer of [{}, { events }, { events, minutes: [] }, { events: [], minutes: [] }]) {
      const bytes = writeReport({ info, details: { ...details, ...fewer } });
      if (bytes.length <= MAX_BYTES) return bytes;
      if (!this.#isTooLarge)
        this.parts.logger.warn(
          `graphql-cached: the report of this process for the inspection is too large (${bytes.length} bytes), and written without its older events, its minutes, or all of its counts`,
        );
      this.#isTooLarge = true;
    }
    return writeReport({ info });
  }

  #own(isWhole: boolean): ProcessReport {
    const { clock, events, identity } = this.parts;
    const { id, host, pid, version, nodeVersion } = identity;
    const times = { startedAt: this.#startedAt, reportedAt: wallTimeOf(clock) };
    const info = { id, host, pid, version, nodeVersion, ...times };
    return isWhole ? { info, details: { ...this.#counted(), events: events.newest } } : { info };
  }

  /** Returns what was counted, and ends the minute if it is over. */
  #counted(): Omit<ReportDetails, "events"> {
    const [at, before] = this.#minute;
    const total = talliesOf(this.parts.counters);
    const counted = since(before, total);
    const minutes = counted.length === 0 ? this.#minutes : [...this.#minutes, [at, counted] as const];
    const now = minuteAt(wallTimeOf(this.parts.clock));
    if (now === at) return { total, minutes };
    this.#minute = [now, total];
    // If the clock was set back, some are to come.
    this.#minutes = minutes.filter(([began]) => began > now - KEPT_MINUTES * MINUTE_MS && began <= now);
    return { total, minutes: this.#minutes };
  }
}

const REPORT_EVERY_MS = 5_000;
/** For how long what was read is shown to others who ask. */
const SHARED_MS = 1_000;
/** For how long a process is listed after its last report. */
const KEPT_MS = 60_000;
const KEPT_MINUTES = 10;
/** What every store takes. */
const MAX_BYTES = 900_000;

const minuteAt = (at: number): number => Math.floor(at / MINUTE_MS) * MINUTE_MS;

/** `missing`: why other processes are not there. */
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
