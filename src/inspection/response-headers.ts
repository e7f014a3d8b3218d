import type { Clock } from "../clock.js";
import type { ReadReport } from "../tier/request.js";

/** Of one response: coordinate → outcome → count, as in `Trace`. */
type Outcomes = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** The most fields and loaders that `Server-Timing` names, those with the longest loads first. */
const MAX_TIMINGS = 20;

/** The outcomes that are answered from the cache alone. */
const FROM_CACHE: readonly string[] = ["hit", "stale"];

/**
 * Summarizes what the reads of one response did, for its headers `Cache-Status` (RFC 9211) and `Server-Timing`. They
 * contain the names of fields and loaders, outcomes and times, never arguments or keys.
 */
export class ResponseSummary {
  readonly #clock: Clock;
  readonly #isForced: boolean;
  /** The longest load of each field or loader, in milliseconds. */
  readonly #loadMs = new Map<string, number>();
  /** When the first of the values stops being fresh. */
  #freshUntil = Number.POSITIVE_INFINITY;
  /** Whether all values that were loaded for this response are offered to the store. */
  #areStorable = true;

  /** `isForced`: the request asked for everything to be loaded anew. */
  constructor(clock: Clock, isForced = false) {
    this.#clock = clock;
    this.#isForced = isForced;
  }

  add(coordinate: string, report: ReadReport): void {
    if (report.outcome === "bypassed") return;
    const { outcome, freshForMs, ageMs, refusal } = report;
    this.#freshUntil = Math.min(this.#freshUntil, this.#clock.now() + freshForMs);
    if (FROM_CACHE.includes(outcome)) return;
    this.#loadMs.set(coordinate, Math.max(this.#loadMs.get(coordinate) ?? 0, ageMs));
    if (outcome === "loaded" && (refusal !== undefined || freshForMs === 0)) this.#areStorable = false;
  }

  /** Returns the headers by name; none if the response has read nothing. */
  headers(trace: Outcomes): Readonly<Record<string, string>> {
    const counts = new Map<string, number>();
    for (const outcomes of Object.values(trace))
      for (const [outcome, count] of Object.entries(outcomes)) counts.set(outcome, (counts.get(outcome) ?? 0) + count);
    if (counts.size === 0) return {};
    return { "Cache-Status": this.#cacheStatus(counts), "Server-Timing": this.#serverTiming(trace) };
  }

  /** One member for the whole response: the members of the list stand for the caches on its way. */
  #cacheStatus(counts: ReadonlyMap<string, number>): string {
    const outcomes = [...counts.keys()];
    const reason = this.#forwardReason(outcomes);
    const parameters = [reason === undefined ? "hit" : `fwd=${reason}`];
    if (!outcomes.some(isBypass)) parameters.push(`ttl=${Math.floor((this.#freshUntil - this.#clock.now()) / 1000)}`);
    if (outcomes.includes("loaded") && this.#areStorable) parameters.push("stored");
    const isCollapsed =
      outcomes.includes("coalesced") && outcomes.every((one) => isFromCache(one) || one === "coalesced");
    if (isCollapsed) parameters.push("collapsed");
    parameters.push(`detail="${describe(counts)}"`);
    return ["graphql-cached", ...parameters].join("; ");
  }

  /** Returns why sources were asked, as a token of RFC 9211. Undefined if none was. */
  #forwardReason(outcomes: readonly string[]): string | undefined {
    if (outcomes.every(isFromCache)) return undefined;
    if (this.#isForced || outcomes.every((one) => one === "bypassed(REQUESTED)")) return "request";
    if (outcomes.some(isFromCache)) return "partial";
    if (outcomes.every(isBypass)) return "bypass";
    return outcomes.every((one) => one === "staleIfError") ? "stale" : "miss";
  }

  #serverTiming(trace: Outcomes): string {
    const loadMsOf = (coordinate: string): number => this.#loadMs.get(coordinate) ?? 0;
    return Object.entries(trace)
      .sort(([one], [other]) => loadMsOf(other) - loadMsOf(one))
      .slice(0, MAX_TIMINGS)
      .map(([coordinate, outcomes]) => {
        const loadMs = this.#loadMs.get(coordinate);
        const duration = loadMs === undefined ? "" : `;dur=${loadMs.toFixed(1)}`;
        return `${coordinate}${duration};desc="${describe(Object.entries(outcomes))}"`;
      })
      .join(", ");
  }
}

const isFromCache = (outcome: string): boolean => FROM_CACHE.includes(outcome);
const isBypass = (outcome: string): boolean => outcome.startsWith("bypassed");
const describe = (counts: Iterable<readonly [string, number]>): string =>
  Array.from(counts, ([outcome, count]) => `${outcome} ${count}`).join(", ");

/** Returns the value of a header that is a list, with another member: caches on the way add theirs at the end. */
export const appended = (existing: unknown, member: string): string =>
  existing === undefined || existing === null || existing === "" ? member : `${String(existing)}, ${member}`;
