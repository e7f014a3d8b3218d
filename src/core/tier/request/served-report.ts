import type { Subject } from "../../keys/key.js";
import type { Policy } from "../../policy/policy.js";
import type { ResponseHint } from "../../store/body.js";
import type { ReadOutcome } from "../../telemetry/events.js";
import { ownPolicy } from "../entry/freshness.js";
import type { Refusal } from "./loaded.js";
import type { RequestTags } from "./request.js";
import { type ServedValue, subjectsOf } from "./value-tags.js";

/** How a read was served. Properties that are rarely used are computed on access. */
export class ServedReport {
  readonly outcome: Exclude<ReadOutcome, "bypassed">;
  readonly isPrivate: boolean;
  readonly freshForMs: number;
  readonly ageMs: number;
  readonly #policy: Policy;
  readonly #tags: RequestTags;
  readonly #value: ServedValue | undefined;

  constructor(
    policy: Policy,
    tags: RequestTags,
    outcome: Exclude<ReadOutcome, "bypassed">,
    freshForMs: number,
    ageMs: number,
    value: ServedValue | undefined,
  ) {
    this.outcome = outcome;
    this.isPrivate = policy.scope === "PRIVATE";
    this.#policy = policy;
    this.freshForMs = Math.max(0, freshForMs);
    this.ageMs = Math.max(0, ageMs);
    this.#tags = tags;
    this.#value = value;
  }

  get staleForMs(): number {
    const value = this.#value;
    const own = value === undefined || !("freshness" in value) ? undefined : value.freshness;
    return (own === undefined ? this.#policy : ownPolicy(this.#policy, own)).staleWhileRevalidateMs;
  }

  get hint(): ResponseHint | undefined {
    return this.#value?.hint;
  }

  get refusal(): Refusal | undefined {
    return this.#value !== undefined && "refusal" in this.#value ? this.#value.refusal : undefined;
  }

  get subjects(): readonly Subject[] {
    return this.#value === undefined ? [] : subjectsOf(this.#tags, this.#value);
  }
}
