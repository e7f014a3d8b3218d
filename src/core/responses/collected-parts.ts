import { getOrMake } from "../base/multimap.js";
import type { Key, Subject } from "../keys/key.js";
import type { Observer, PartCollector } from "../loader/request-states.js";
import type { CacheParts } from "../parts.js";
import type { Policy } from "../policy/policy.js";
import type { KnownKey } from "../tier/request/known-key.js";
import { REFUSALS } from "../tier/request/loaded.js";
import type { ReadReport } from "../tier/request/request.js";

/** What a response is made of: the narrowest of all parts. What is unknown is not stored. */
export class CollectedParts implements PartCollector {
  readonly #contextPaths: ReadonlySet<string>;
  readonly #tags = new Set<Subject>();
  /** By coordinate. `form`: that of the first key. */
  readonly #entries = new Map<string, { readonly form: Subject; readonly entries: Set<Subject> }>();
  /** Whether all of it is known. Otherwise it is not stored. */
  isComplete = true;
  /** When the first part becomes stale, on the clock of this process. Infinite without parts. */
  freshUntilAt = Number.POSITIVE_INFINITY;
  /** For how long every part may then be served while refreshed. Infinite without parts. */
  staleForMs = Number.POSITIVE_INFINITY;
  isPrivate = false;
  readonly members: ReadonlySet<PartCollector> = new Set([this]);
  hasReads = false;

  /** `contextPaths`: the paths into the context that are part of its key. */
  constructor(
    private readonly parts: CacheParts,
    contextPaths: Iterable<string>,
  ) {
    this.#contextPaths = new Set(contextPaths);
  }

  add(coordinate: string, report: ReadReport, key: Key | undefined): void {
    this.hasReads = true;
    this.isPrivate ||= report.isPrivate;
    if (report.outcome === "bypassed") {
      this.isComplete = false;
      return;
    }
    const { refusal, hint } = report;
    if (refusal !== undefined && !REFUSALS[refusal].isStoredInResponses) this.isComplete = false;
    this.isPrivate ||= hint?.scope === "PRIVATE";
    const contextPaths = key && this.parts.rules.contextPaths.get(key.variantId);
    const missing = contextPaths?.find(({ text }) => !this.#contextPaths.has(text));
    if (missing !== undefined) this.refuse(`the key of \`${coordinate}\` contains ${missing.text}`);
    const hintedMs = hint?.maxAge === undefined ? Number.POSITIVE_INFINITY : hint.maxAge * 1000 - report.ageMs;
    const freshForMs = Math.min(report.freshForMs, hintedMs);
    this.freshUntilAt = Math.min(this.freshUntilAt, this.parts.clock.now() + freshForMs);
    this.staleForMs = Math.min(this.staleForMs, report.staleForMs);
    try {
      this.addTags(report.subjects);
    } catch {
      // Of a value that is not stored, they may not be derivable.
      this.isComplete = false;
    }
    if (key !== undefined) this.#addEntry(key);
  }

  /** A PRIVATE value of another request, or of another part of it, would make all of it PRIVATE. */
  addUnattributed(coordinate: string, report: ReadReport, key: Key | undefined): void {
    if (report.isPrivate) this.refuse(`\`${coordinate}\`, which is PRIVATE, was read with a context of no request`);
    else this.add(coordinate, report, key);
  }

  addPrimed(names: KnownKey | undefined, { scope, maxAgeMs }: Policy): void {
    this.isPrivate ||= scope === "PRIVATE";
    this.freshUntilAt = Math.min(this.freshUntilAt, this.parts.clock.now() + maxAgeMs);
    this.isComplete &&= names !== undefined;
    if (names === undefined) return;
    this.addTags(names.tags.subjects);
    this.#addEntry(names.key);
  }

  addUncached(_coordinate: string, isPrivate: boolean): void {
    this.isPrivate ||= isPrivate;
    this.isComplete = false;
  }

  addTags(subjects: readonly Subject[]): void {
    for (const tag of subjects) this.#tags.add(tag);
  }

  /** Adds what was read of the context and is not in the key. `remedy`: what to do about it. */
  addContextReads(names: readonly string[], remedy: (path: string) => string): void {
    if (names.length === 0) return;
    this.isComplete = false;
    this.parts.onceLog.warn(contextReadLine(names, remedy));
  }

  /** `reason`: a mistake in how the cache is used, which is logged once. */
  refuse(reason: string): void {
    this.isComplete = false;
    this.parts.onceLog.warn(
      `graphql-cached: a response is not stored: expected to know everything that it is made of, but ${reason}; create one context per request, and call loaders with that context in resolvers`,
    );
  }

  /** `observer`: is told as well. */
  observing(observer: Observer | undefined): Observer & { readonly collector: CollectedParts } {
    return {
      collector: this,
      onRead: (coordinate, report, info, key) => {
        this.add(coordinate, report, key);
        observer?.onRead(coordinate, report, info, key);
      },
      onHint: (hint, info) => observer?.onHint?.(hint, info),
      onKnown: (isPrivate, freshForMs) => observer?.onKnown?.(isPrivate, freshForMs),
      onExecution: (execution) => observer?.onExecution?.(execution),
    };
  }

  #addEntry(key: Key): void {
    const { anyOf, entry, formOf, coordinate } = this.parts.keys.subjects;
    const { form, entries } = getOrMake(this.#entries, key.coordinate, () => {
      const whole = coordinate(key.coordinate);
      this.#tags.add(whole).add(formOf(whole, key.form));
      return { form: key.form, entries: new Set() };
    });
    // What invalidates entries in one form does not show which of those in others are meant.
    if (form !== key.form) this.#tags.add(anyOf(key.coordinate));
    // One more shows that there are too many.
    if (entries.size <= MAX_ENTRIES) entries.add(entry(key));
  }

  subjects(): readonly Subject[] | undefined {
    const subjects = new Set(this.#tags);
    for (const [coordinate, { entries }] of this.#entries) {
      const isShared = entries.size > MAX_ENTRIES || subjects.size + entries.size > MAX_TAGS;
      for (const subject of isShared ? [this.parts.keys.subjects.anyOf(coordinate)] : entries) subjects.add(subject);
    }
    return subjects.size > MAX_TAGS ? undefined : [...subjects];
  }
}

/** Says what about the context keeps a response from those who share one. See `addContextReads`. */
export function contextReadLine(names: readonly string[], remedy: (path: string) => string): string {
  const read = names.slice(0, MAX_NAMES);
  return (
    `graphql-cached: a response is not kept for all callers, since its execution has read ${read.map((name) => `\`context.${name}\``).join(", ")}, so that one could get what was made for another; ` +
    `${remedy(`$context.${read[0]}`)}; only if it is the same for every caller, list it in createCache({ privacy: { sharedContextKeys: ${JSON.stringify([...new Set(read.map((name) => name.split(".")[0]))])} } })`
  );
}

/** How many properties of a context one line names. */
const MAX_NAMES = 8;
/** With more, the entries of a coordinate share a tag that an invalidation of any changes. */
const MAX_TAGS = 1_000;
/** The entries of one coordinate that have a tag each. */
const MAX_ENTRIES = 16;
