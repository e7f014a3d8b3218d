import { hash } from "node:crypto";
import type { Key } from "../keys/key.js";
import type { Policy } from "../policy/policy.js";
import type { ResponseHint } from "../store/body.js";
import { NO_SIGNATURE } from "../store/entry.js";
import type { BypassReason, ReadOutcome } from "../telemetry/events.js";

/** The tags of one value, by their names in the store. */
export interface RequestTags {
  /** The templates they come from. Part of the signature, so that a tag added in code makes older entries outdated. */
  readonly rule: string;
  /** Those known before the load. */
  readonly names: readonly string[];
  /** Those known only after it; undefined where there are none of this kind. */
  readonly namesOf: ((value: unknown) => readonly string[]) | undefined;
}

/** How a read ended, for the one who asked. */
export type ReadReport =
  | {
      readonly outcome: Exclude<ReadOutcome, "bypassed">;
      readonly isPrivate: boolean;
      readonly freshForMs: number;
      readonly ageMs: number;
      /** What the load has said of its response. */
      readonly hint: ResponseHint | undefined;
    }
  | { readonly outcome: "bypassed"; readonly isPrivate: boolean; readonly reason: BypassReason };

/** One read of one key: everything the tier needs to know, and nothing of where it came from. */
export interface ReadRequest {
  readonly key: Key;
  readonly policy: Policy;
  readonly tags: RequestTags;
  /** Loads the value from its source. Called at most once for a request, and only if this request has won the lease, or the cache steps aside. */
  load(): unknown;
  /** What the load that this request ran has said of its response; asked once it has ended. */
  readonly hintOf?: (() => ResponseHint | undefined) | undefined;
  /** The asker wants a value that is loaded now, whatever is stored. */
  readonly isForced?: boolean | undefined;
  /** What another process needs to make this request: plain data. Undefined where only this one can. */
  readonly input?: (() => unknown) | undefined;
  /** Asked where nothing is stored: false if there is nothing to load, so that null is the answer. Never rejects. Undefined: there may be. */
  readonly mayExist?: (() => Promise<boolean>) | undefined;
  onRead?(served: ReadReport): void;
}

/** The digest of the tagVersions under which a load begins: eight bytes. Undefined where a version is missing. */
export function signatureOf(tags: RequestTags, tagVersions: readonly (string | undefined)[]): string | undefined {
  if (tags.rule === "") return NO_SIGNATURE;
  if (tagVersions.some((version) => version === undefined)) return undefined;
  return hash("sha256", JSON.stringify([tags.rule, tags.names, tagVersions]), "binary").slice(0, 8);
}
