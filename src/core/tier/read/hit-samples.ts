import { within } from "../../base/clock.js";
import { subjectOf } from "../../telemetry/channel.js";
import type { Comparison } from "../../telemetry/events.js";
import type { InFlightLoad, Settled } from "../lease/load-sharing.js";
import type { ReadRequest } from "../request/request.js";
import type { ServableValue } from "../request/verdict.js";
import type { ReadParts, ReadPath } from "./read-parts.js";
import type { ValueComparison } from "./value-comparison.js";

/**
 * Compares some of the hits with their source, off the path of requests, to measure how many of them are outdated. Only hits
 * of PUBLIC values: those of PRIVATE ones may need the session of a request that has ended. Nobody waits for the call: it is
 * made only if most slots of the source's bulkhead are free, takes none of them, and what it returns is neither served nor
 * stored. Whether it fails says nothing about the source to anybody else.
 *
 * The interleavings that a sample has to handle are those of an observed read: after the hit, the value is changed and
 * invalidated, or refreshed, and then the source is read. Nobody would be served an outdated value any more. So a sample
 * counts only if the store still has the same entry afterwards, and nothing has invalidated it. This holds for values that are
 * the same as well: otherwise, changes would be left out more often than their absence.
 */
export class HitSamples {
  readonly #parts: ReadParts;
  readonly #comparison: ValueComparison;
  readonly #path: ReadPath;
  /** How many samples are under way, from the hit on. */
  #underWay = 0;
  /** The fields and loaders with a call of their source that has not ended. */
  readonly #calling = new Set<string>();
  /** When the next hit of each field or loader may be sampled. */
  readonly #nextAt = new Map<string, number>();
  #secondBeganAt = Number.NEGATIVE_INFINITY;
  #inSecond = 0;

  constructor(parts: ReadParts, comparison: ValueComparison, path: ReadPath) {
    this.#parts = parts;
    this.#comparison = comparison;
    this.#path = path;
  }

  /** Called for each hit that starts no refresh. `ageMs`: how old its value is. */
  offer(request: ReadRequest, served: ServableValue, ageMs: number): void {
    const { clock } = this.#parts;
    // A source that has just failed is left alone.
    if (served.freshness === "stale-backoff" || !this.#isDrawn(request, served)) return;
    const servedAt = clock.now();
    if (!this.#isAllowed(request.key.coordinate, servedAt)) return;
    const own = sampleOf(request);
    if (own === undefined) return;
    this.#count(request.key.coordinate, servedAt);
    const sample: Sample = { request: own, served, ageMs };
    clock.after(DELAY_MS, () => {
      void this.#run(sample, servedAt)
        .catch(() => undefined)
        .finally(() => this.#underWay--);
    });
  }

  /**
   * Called for each hit that starts a refresh. Returns what compares it with the value of the refresh, which needs no call of
   * the source. Undefined: nothing does.
   */
  ofRefresh(request: ReadRequest, served: ServableValue, ageMs: number): ((load: InFlightLoad) => void) | undefined {
    if (!this.#isDrawn(request, served)) return undefined;
    return (load) => void this.#compareRefreshed({ request, served, ageMs }, load).catch(() => undefined);
  }

  /** A value that was invalidated softly is known to have changed. */
  #isDrawn({ policy }: ReadRequest, { isSoft, tags }: ServableValue): boolean {
    const { random, settings } = this.#parts;
    return policy.scope === "PUBLIC" && !isSoft && tags === "current" && random() < settings.sampleRatio;
  }

  #isAllowed(coordinate: string, now: number): boolean {
    const { maxSamplesPerSecond, maxConcurrentSamples } = this.#parts.settings;
    if (this.#underWay >= maxConcurrentSamples || this.#calling.has(coordinate)) return false;
    if (now < (this.#nextAt.get(coordinate) ?? now)) return false;
    return now - this.#secondBeganAt >= SECOND_MS || this.#inSecond < maxSamplesPerSecond;
  }

  #count(coordinate: string, now: number): void {
    if (now - this.#secondBeganAt >= SECOND_MS) {
      this.#secondBeganAt = now;
      this.#inSecond = 0;
    }
    this.#inSecond++;
    this.#underWay++;
    this.#nextAt.set(coordinate, now + SECOND_MS);
  }

  async #run({ request, served, ageMs }: Sample, servedAt: number): Promise<void> {
    const { clock, loads, settings } = this.#parts;
    const { coordinate } = request.key;
    if (!loads.hasRoom(coordinate) || !this.#path.mayRead(request)) return;
    const ageAtCallMs = ageMs + clock.now() - servedAt;
    this.#calling.add(coordinate);
    const call = loads.callBeside(request);
    void call.finally(() => this.#calling.delete(coordinate));
    const loaded = await within(clock, call, { ms: settings.loadTimeoutMs, otherwise: () => undefined });
    const compared = loaded === undefined ? "none" : this.#compare(request, served, loaded.value);
    await this.#report({ request, served, ageMs }, compared, ageAtCallMs, undefined);
  }

  async #compareRefreshed(sample: Sample, { loaded, settled }: InFlightLoad): Promise<void> {
    const result = await loaded;
    if (result.kind !== "loaded" || result.content === undefined || result.settings?.isSkipped === true) return;
    const { request, served, ageMs } = sample;
    await this.#report(sample, this.#compare(request, served, result.value), ageMs, settled);
  }

  /** The caller may have modified the value that it was served, so it is decoded once more. */
  #compare(request: ReadRequest, served: ServableValue, value: unknown): Comparison {
    const { decoded } = served;
    const again = this.#parts.packing.decode(decoded.content);
    return this.#comparison.compare(request, { ...served, decoded: decoded.with(again) }, value);
  }

  /** `ageAtCallMs`: how old the value was when its source was called. `settled`: the refresh that replaces the value. */
  async #report(
    { request, served, ageMs }: Sample,
    compared: Comparison,
    ageAtCallMs: number,
    settled: Promise<Settled> | undefined,
  ): Promise<void> {
    const { name } = request.key;
    const isConfirmed =
      compared !== "none" && (await this.#comparison.isConfirmed(request, served, settled).catch(() => false));
    const { newMs } = isConfirmed
      ? this.#comparison.watch(name, served.entry, ageAtCallMs, compared === "same")
      : { newMs: 0 };
    this.#parts.channel.publish({
      name: "hit.sampled",
      ...subjectOf(request.key),
      isRefresh: settled !== undefined,
      comparison: isConfirmed ? compared : "none",
      ...(isConfirmed ? { watched: { ageMs, newMs } } : {}),
    });
  }
}

/** A hit that is compared. */
interface Sample {
  /** The request that was served, or one that loads its value once more. */
  readonly request: ReadRequest;
  readonly served: ServableValue;
  /** How old the value was when it was served. */
  readonly ageMs: number;
}

/** How long after a hit its source is called: by then, most requests are answered. */
const DELAY_MS = 100;
const SECOND_MS = 1_000;

/** A getter of the context may throw, which must not fail the hit. */
function sampleOf(request: ReadRequest): ReadRequest | undefined {
  try {
    return request.toSample?.();
  } catch {
    return undefined;
  }
}
