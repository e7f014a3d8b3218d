import type { Clock } from "../base/clock.js";
import type { Policy } from "../policy/policy.js";
import type { Entry } from "../store/entry.js";
import type { ResponseHint } from "../store/entry-layout.js";
import { freshMsOf, type Loaded } from "../tier/request/loaded.js";
import type { ReadEnding } from "../tier/request/request.js";
import type { Moment } from "../tier/shared/known-positions.js";
import type { Observer, PartCollector } from "./request-states.js";

/** What a request has read of an id, and how that has ended. The moment is when it has asked. */
export class Remembered implements Moment, ReadEnding {
  value!: Promise<unknown>;
  readonly position: number;
  readonly restarts: number;
  /** The `changes` of the invalidation clock up to which it has been compared. */
  changes: number;
  /** Until when it is remembered, and is fresh, on the clock of this process. */
  until: number;
  freshUntil: number;
  /** What collected the parts of a response when it was asked for. */
  readonly collector: PartCollector | undefined;
  /** Whether it was read around the tier, so that no copies can be made. */
  isBypassed = false;
  /** Known inside of loads only: other loads get copies. */
  origin: Entry | Loaded | undefined = undefined;
  decoded: ReadEnding["decoded"] = undefined;
  isShared = false;
  hint: ResponseHint | undefined = undefined;

  /** `toldTo`: who is told of it by its read, or was last told that it is remembered. */
  constructor(
    private readonly policy: Policy,
    private readonly clock: Clock,
    moment: Moment & { readonly changes: number },
    private readonly isInLoad: boolean,
    public toldTo: Observer | undefined,
  ) {
    this.position = moment.position;
    this.restarts = moment.restarts;
    this.changes = moment.changes;
    this.until = clock.now() + policy.maxAgeMs;
    this.freshUntil = this.until;
    this.collector = toldTo?.collector;
  }

  /** The read has ended, or a load of which only those who wait for it get the value. */
  endWith(origin: Entry | Loaded): void {
    if (this.isInLoad) this.origin = origin;
    if ("kind" in origin && origin.kind === "loaded") this.keepFor(freshMsOf(this.policy, origin) - origin.loadMs);
  }

  /** A failure is remembered for the `maxAge`. */
  keepFor(freshForMs: number, isFailure = false): void {
    const now = this.clock.now();
    const keptMs = freshForMs > 0 ? freshForMs : STALE_MS;
    this.shorten(isFailure ? this.until : now + keptMs, now + freshForMs);
  }

  shorten(until: number, freshUntil: number): void {
    this.until = Math.min(this.until, until);
    this.freshUntil = Math.min(this.freshUntil, freshUntil);
  }

  /** The copy of another load. */
  withValue(value: Promise<unknown>): Remembered {
    const copy = Object.create(this) as Remembered;
    copy.value = value;
    return copy;
  }
}

/** A request that could not get a fresh value goes on with what it has for a moment. */
const STALE_MS = 1_000;
