import type { Clock } from "../../core/base/clock.js";
import {
  MAX_REPORTING,
  type ProcessReport,
  REPORTS_KEPT_MS,
  type ReportingProcess,
  type ReportReply,
  type ReportStore,
  type WriteReply,
} from "../../core/store/report-store.js";

interface KeptPart {
  readonly sequence: number;
  readonly bytes: Uint8Array;
  readonly dropAt: number;
}

interface KeptReport {
  reportedAt: number;
  readonly parts: Map<string, KeptPart>;
}

/** The reports of the caches that share a memory store. */
export class MemoryReports implements ReportStore {
  readonly #clock: Clock;
  readonly #byProcess = new Map<string, KeptReport>();
  #askedUntilAt = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async write({ process, sequence, parts }: ProcessReport): Promise<WriteReply> {
    const now = this.#clock.now();
    this.#dropOld(now);
    const isFirst = !this.#byProcess.has(process);
    const kept = this.#byProcess.get(process) ?? { reportedAt: now, parts: new Map<string, KeptPart>() };
    kept.reportedAt = now;
    this.#byProcess.set(process, kept);
    for (const { name, bytes, keepMs } of parts)
      if ((kept.parts.get(name)?.sequence ?? -1) <= sequence)
        kept.parts.set(name, { sequence, bytes, dropAt: now + keepMs });
    return { ...this.#reply(now), isFirst };
  }

  async list(): Promise<ReportReply & { readonly processes: readonly ReportingProcess[] }> {
    const now = this.#clock.now();
    this.#dropOld(now);
    const processes = [...this.#byProcess]
      .map(([id, { reportedAt }]) => ({ id, reportedAt }))
      .sort((a, b) => b.reportedAt - a.reportedAt);
    return { ...this.#reply(now), processes: processes.slice(0, MAX_REPORTING) };
  }

  async read(
    wanted: readonly { readonly process: string; readonly part: string }[],
  ): Promise<(Uint8Array | undefined)[]> {
    this.#dropOld(this.#clock.now());
    return wanted.map(({ process, part }) => this.#byProcess.get(process)?.parts.get(part)?.bytes);
  }

  async ask(ms: number): Promise<void> {
    this.#askedUntilAt = Math.max(this.#askedUntilAt, this.#clock.now() + ms);
  }

  #reply(now: number): ReportReply {
    return { now, askedUntilAt: this.#askedUntilAt > now ? this.#askedUntilAt : 0 };
  }

  #dropOld(now: number): void {
    for (const [process, { reportedAt, parts }] of this.#byProcess) {
      for (const [name, { dropAt }] of parts) if (dropAt <= now) parts.delete(name);
      if (reportedAt + REPORTS_KEPT_MS <= now) this.#byProcess.delete(process);
    }
  }
}
