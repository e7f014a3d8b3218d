import type { Clock } from "../../core/base/clock.js";
import { MAX_REPORTING, REPORTS_KEPT_MS, type ReportStore, replyAt } from "../../core/store/report-store.js";

/** Keeps the reports of the caches that share a memory store. */
export function memoryReports(clock: Clock): ReportStore {
  const byProcess = new Map<string, KeptReport>();
  let askedUntilAt = 0;

  function dropOld(now: number): void {
    for (const [process, { reportedAt, parts }] of byProcess) {
      for (const [name, { dropAt }] of parts) if (dropAt <= now) parts.delete(name);
      if (reportedAt + REPORTS_KEPT_MS <= now) byProcess.delete(process);
    }
  }

  return {
    async write({ process, sequence, parts: written }) {
      const now = clock.now();
      dropOld(now);
      const known = byProcess.get(process);
      const parts: KeptReport["parts"] = known?.parts ?? new Map();
      byProcess.set(process, { reportedAt: now, parts });
      for (const { name, bytes, keepMs } of written)
        if ((parts.get(name)?.sequence ?? -1) <= sequence) parts.set(name, { sequence, bytes, dropAt: now + keepMs });
      return { ...replyAt(now, askedUntilAt), isFirst: known === undefined };
    },
    async list() {
      const now = clock.now();
      dropOld(now);
      const processes = [...byProcess]
        .map(([id, { reportedAt }]) => ({ id, reportedAt }))
        .sort((a, b) => b.reportedAt - a.reportedAt);
      return { ...replyAt(now, askedUntilAt), processes: processes.slice(0, MAX_REPORTING) };
    },
    async read(wanted) {
      dropOld(clock.now());
      return wanted.map(({ process, part }) => byProcess.get(process)?.parts.get(part)?.bytes);
    },
    async ask(ms) {
      askedUntilAt = Math.max(askedUntilAt, clock.now() + ms);
    },
  };
}

interface KeptReport {
  readonly reportedAt: number;
  readonly parts: Map<string, { readonly sequence: number; readonly bytes: Uint8Array; readonly dropAt: number }>;
}
