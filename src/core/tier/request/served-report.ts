import type { Subject } from "../../keys/key.js";
import type { Policy } from "../../policy/policy.js";
import type { OwnFreshness, ResponseHint } from "../../store/body.js";
import type { Channel } from "../../telemetry/channel.js";
import type { ReadOutcome } from "../../telemetry/events.js";
import { ownPolicy } from "../entry/freshness.js";
import type { LoadedValue } from "./loaded.js";
import type { AwaitedLoad, ReadReport, ReadRequest, RequestTags } from "./request.js";

/** Returns how a read was served. Properties that are rarely used are computed on access. */
export const servedReport = (
  policy: Policy,
  tags: RequestTags,
  outcome: Exclude<ReadOutcome, "bypassed">,
  freshForMs: number,
  ageMs: number,
  value: ServedValue | undefined,
): ReadReport => ({
  outcome,
  isPrivate: policy.scope === "PRIVATE",
  freshForMs: Math.max(0, freshForMs),
  ageMs: Math.max(0, ageMs),
  hint: value?.hint,
  refusal: value !== undefined && "refusal" in value ? value.refusal : undefined,
  get staleForMs() {
    const own = value !== undefined && "freshness" in value ? value.freshness : undefined;
    return (own === undefined ? policy : ownPolicy(policy, own)).staleWhileRevalidateMs;
  },
  get subjects() {
    return value === undefined ? [] : subjectsOf(tags, value);
  },
});

/** What a read has ended with: a value that was loaded, decoded from its entry, or kept by the near cache. */
export type ServedValue =
  | LoadedValue
  | {
      readonly hint: ResponseHint | undefined;
      readonly subjects: readonly Subject[];
      readonly freshness?: OwnFreshness | undefined;
    };

/** Returns the tags of a value that a request got. */
const subjectsOf = (tags: RequestTags, served: ServedValue): readonly Subject[] =>
  "subjects" in served ? served.subjects : subjectsOfLoaded(tags, served);

/** Returns all tags of a loaded value, each once: those known before its load, and those derived from it. */
export function subjectsOfLoaded(tags: RequestTags, { value, settings }: LoadedValue): readonly Subject[] {
  const { subjects, subjectsOf: derivedFrom } = tags;
  const kept = settings?.unchanged?.subjects;
  if (derivedFrom === undefined && settings === undefined) return subjects;
  return [...new Set([...subjects, ...(derivedFrom?.(value) ?? []), ...(kept ?? []), ...(settings?.tags ?? [])])];
}

/** Returns whether two lists have the same subjects in the same order. */
export const areSameSubjects = (some: readonly Subject[], others: readonly Subject[]): boolean =>
  some.length === others.length && some.every((subject, nth) => subject === others[nth]);

/** Reports that `request` has waited, unless it has not, or for its own load. */
export function reportWait(
  request: ReadRequest,
  { request: awaited, gen }: AwaitedLoad,
  waitMs: number,
  channel: Channel,
): void {
  if (awaited === undefined || awaited === request) return;
  const { key } = request;
  const { coordinate } = key;
  channel.waited(coordinate, key, waitMs, awaited !== "elsewhere");
  const load = awaited === "elsewhere" ? undefined : awaited.trace?.load;
  if (request.trace !== undefined)
    channel.tracing?.waited({ coordinate, waitMs, parent: request.trace.parent, load, gen });
}
