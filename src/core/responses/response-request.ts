import { Deferred, notPromise } from "../base/deferred.js";
import { type CachedError, inOneLine, messageOf, optionInvalid } from "../base/errors.js";
import { StoredText } from "../codec/packing.js";
import { type Key, RESPONSES } from "../keys/key.js";
import { checkedTags, checkTagsOfValue } from "../keys/tag-template.js";
import { identityOf } from "../loader/identity.js";
import type { Observer } from "../loader/request-states.js";
import type { CacheParts } from "../parts.js";
import { NEGATIVE_MAX_AGE_SECONDS, type Policy } from "../policy/policy.js";
import type { KnownKey } from "../tier/request/known-key.js";
import { isNegative } from "../tier/request/loaded.js";
import type { ReadReport, ReadRequest } from "../tier/request/request.js";
import { LoadControl, type ResultControl } from "../tier/request/result-control.js";
import { Served } from "../tier/request/served-report.js";
import { NO_TAGS, type RequestTags } from "../tier/request/tags.js";
import type { Waiters } from "../tier/request/waiters.js";
import type { Admission, OperationState } from "./admission.js";
import { CollectedParts } from "./collected-parts.js";
import type { OperationPlan } from "./operation-plan.js";
import type { ResolvedResponses } from "./options.js";
import {
  type Begun,
  type ExecutedResponse,
  endWith,
  executeUnstored,
  type Operation,
  type ResponseAge,
  type ResponseExecution,
} from "./response-execution.js";
import type { ResponseKey } from "./response-key.js";
import { type ParsedTexts, StoredResponse } from "./stored-response.js";

export interface ResponsesParts {
  readonly parts: CacheParts;
  readonly options: ResolvedResponses;
  readonly admission: Admission;
  /** The data of texts in memory. */
  readonly parsed: ParsedTexts | undefined;
  /** Outside of production: what PRIVATE responses were made from, by property and identity. */
  readonly privateReads: Map<string, unknown>;
}

export interface Asked {
  readonly operation: Operation;
  readonly plan: OperationPlan;
  readonly named: ResponseKey;
  readonly observer: Observer | undefined;
  readonly learned: OperationState;
  readonly isForced: boolean;
  /** The age of the response by the schema and the policies of cached fields. */
  ageOf(): ResponseAge | undefined;
}

/** The request for a response and the execution that is its load, which the server runs. */
export class ResponseRequest implements ReadRequest, ResponseExecution {
  readonly key: Key;
  readonly policy: Policy;
  readonly tags = TAGS_OF_LOADS;
  /** The server has begun to work on the request before: there is nothing to hold back. */
  readonly needsNoSlot = true;
  readonly isForced: boolean;
  readonly isPrivate: boolean;
  readonly identity: string | undefined;
  readonly contextPaths: readonly string[];
  /** What the response is made of, once it is executed. */
  parts: CollectedParts | undefined;
  readonly #begun = new Deferred<Begun>();
  #read: Promise<unknown> | undefined;
  #report: ReadReport | undefined;
  #load: RunningLoad | undefined;

  constructor(
    private readonly shared: ResponsesParts,
    private readonly asked: Asked,
    readonly known: KnownKey,
  ) {
    const { operation, named } = asked;
    this.key = named.key;
    this.isForced = asked.isForced;
    this.isPrivate = named.isPrivate;
    this.identity = named.identity;
    this.contextPaths = named.contextPaths;
    this.policy = policyOf(shared, named.isPrivate ? "PRIVATE" : "PUBLIC", operation.execute !== undefined);
  }

  fromMemory(): Begun | undefined {
    const { key, known, policy } = this;
    const { memory } = this.shared.parts.tier;
    const { kept } = known;
    const text = memory?.take(known);
    if (!(text instanceof StoredText) || kept === undefined || memory === undefined) return undefined;
    this.shared.parts.channel.served(RESPONSES, key, "hit");
    const now = memory.now();
    const report = new Served({ policy, tags: NO_TAGS }, "hit", kept.freshUntilAt - now, now - kept.grantedAt, kept);
    this.asked.observer?.onRead(RESPONSES, report, undefined, key);
    return this.#served(text, report);
  }

  /** Answers from the store, or by an execution. `mayStore`: whether its response is stored. */
  begin(mayStore: boolean): Promise<Begun> {
    const { tier } = this.shared.parts;
    this.#read = mayStore ? tier.read(this) : tier.peek(this);
    const answer = (value?: unknown): void => {
      const isStored = value instanceof StoredText && this.#report !== undefined;
      this.#begun.resolve(isStored ? this.#served(value, this.#report as ReadReport) : executeUnstored(this.isPrivate));
    };
    this.#read.then(answer, () => answer());
    return this.#begun.promise;
  }

  #served(text: StoredText, report: ReadReport): Begun {
    const { admission, parsed } = this.shared;
    const { isPrivate, contextPaths } = this;
    const { learned, plan } = this.asked;
    // That of the own execution is no hit.
    if (report.outcome !== "loaded") admission.hit(learned, this.key.digest);
    const known = report.outcome === "bypassed" ? NOTHING_KNOWN : report;
    return { kind: "served", response: new StoredResponse(text, parsed), report: known, isPrivate, plan, contextPaths };
  }

  onRead(report: ReadReport): void {
    this.#report = report;
    // It would be encoded up to the limit by every request.
    if (report.outcome !== "bypassed" && report.refusal === "too-large") this.#noteUnstorable();
    this.asked.observer?.onRead(RESPONSES, report, undefined, this.key);
  }

  changed(): CachedError | undefined {
    return this.asked.named.changed();
  }

  load(waiters: Waiters, control: ResultControl): Promise<unknown> {
    const { named, operation, observer } = this.asked;
    const { clock, contextWatch, identify, requestStates } = this.shared.parts;
    const { context } = operation;
    const parts = new CollectedParts(this.shared.parts, this.contextPaths);
    const isWatched = named.isWatched || (this.isPrivate && contextWatch.isReporting);
    const stopWatch = isWatched ? contextWatch.collect(context, this.contextPaths) : () => [];
    // Shows the watch what tells callers apart.
    if (isWatched && named.identity === undefined) identityOf(identify, context);
    const startedAt = clock.now();
    const stopCollection = requestStates.collect(context, parts.observing(observer));
    const loaded = new Deferred<unknown>();
    this.parts = parts;
    this.#load = { parts, control, startedAt, loaded, stopWatch, stopCollection, hasEnded: false };
    // It may never end, and everything of unknown origin would be a part of it.
    waiters.onOver(() => this.abandon());
    // The caller has the stale response.
    if (this.#report?.outcome === "stale") void this.#refresh();
    else this.#begun.resolve({ kind: "execute", execution: this });
    return loaded.promise;
  }

  /** Never rejects. */
  async #refresh(): Promise<void> {
    const { operation, ageOf } = this.asked;
    const run = async (): Promise<object> => (await operation.execute?.()) as object;
    await endWith(this, run, ageOf).catch(() => undefined);
  }

  run<T>(execute: () => T): T {
    const { parts } = this;
    return parts === undefined ? execute() : this.shared.parts.requestStates.executeFor(parts, execute);
  }

  executed(): void {
    this.#contextReads();
  }

  async end(
    response: ExecutedResponse,
    age: ResponseAge | undefined,
    isRefused = false,
  ): Promise<StoredResponse | undefined> {
    const load = this.#stop();
    if (load === undefined) return undefined;
    const { staleWhileRevalidateMs, staleIfErrorMs } = this.shared.options;
    const [error] = response.errors ?? [];
    if (error !== undefined && Math.max(staleWhileRevalidateMs, staleIfErrorMs) > 0) {
      // The tier decides whether the source is in trouble, and an older response takes its place.
      load.loaded.reject((error as { readonly originalError?: unknown }).originalError ?? error);
      const older = await this.#read?.catch(() => undefined);
      return older instanceof StoredText ? new StoredResponse(older, this.shared.parsed) : undefined;
    }
    const stored = this.#storedOf(load, response, age, isRefused);
    if (stored instanceof StoredText) {
      load.loaded.resolve(stored);
      return undefined;
    }
    if (stored === "private") this.asked.learned.isPrivate = true;
    if (stored === "unstorable") this.#noteUnstorable();
    skip(load);
    return undefined;
  }

  abandon(): void {
    const load = this.#stop();
    if (load === undefined) return;
    // The execution may go on, and nobody notes what it reads from now on.
    load.parts.isComplete = false;
    skip(load);
  }

  #stop(): RunningLoad | undefined {
    const load = this.#load;
    if (load === undefined || load.hasEnded) return undefined;
    load.hasEnded = true;
    this.#contextReads();
    load.stopCollection();
    return load;
  }

  /** Returns what is stored of a response, and tells the tier how; or why nothing is. */
  #storedOf(
    { parts, control, startedAt }: RunningLoad,
    { data, errors = [], extensions = {} }: ExecutedResponse,
    age: ResponseAge | undefined,
    isRefused: boolean,
  ): StoredText | "private" | "unstorable" | "outdated" {
    const { options, admission, parts: all } = this.shared;
    if (errors.length > 0 || data == null) return "unstorable";
    if (!this.isPrivate && (age?.isPrivate === true || parts.isPrivate)) return "private";
    parts.addContextReads(this.#contextReads(), REMEDY);
    const subjects = parts.subjects();
    // Otherwise another cache may have answered.
    const hasReads = parts.hasReads || this.asked.plan.coordinates.length === 0;
    if (age === undefined || isRefused || subjects === undefined || !parts.isComplete || !hasReads) return "unstorable";
    const tags = this.#tags();
    if (tags === undefined) return "unstorable";
    // Counted from the beginning of the execution, as the age of an entry is.
    const ageMs = Math.min(options.maxAgeMs, age.maxAge * 1_000, parts.freshUntilAt - startedAt);
    const negativeMaxAgeMs = (all.defaults.negativeMaxAge ?? NEGATIVE_MAX_AGE_SECONDS) * 1_000;
    // Something is missing: no data of a root field, or an empty list.
    const maxAgeMs = Object.values(data).some(isNegative) ? Math.min(ageMs, negativeMaxAgeMs) : ageMs;
    // Its parts are fresh again soon.
    if (maxAgeMs <= 0) return "outdated";
    const kept = Object.entries(extensions).filter(([name]) => options.extensions.includes(name));
    const text = StoredResponse.write(data, kept.length > 0 ? Object.fromEntries(kept) : undefined);
    // It is not JSON.
    if (text === undefined) return "unstorable";
    const staleWhileRevalidate = Number.isFinite(parts.staleForMs) ? parts.staleForMs / 1_000 : undefined;
    control.set({ maxAge: maxAgeMs / 1_000, tags, staleWhileRevalidate });
    // Those who share the execution get them with the response, which says nothing of them itself.
    if (control instanceof LoadControl) control.addSubjects(subjects);
    const untilAt = startedAt + maxAgeMs + Math.max(options.staleWhileRevalidateMs, options.staleIfErrorMs);
    admission.stored(this.asked.learned, this.key.digest, untilAt);
    return text;
  }

  /** Ends the watch. Returns what was read that neither the key has nor all share. */
  #contextReads(): readonly string[] {
    const { contextWatch } = this.shared.parts;
    const { named, operation } = this.asked;
    const read = this.#load?.stopWatch() ?? [];
    if (this.isPrivate) this.#comparePrivateReads(read);
    if (this.isPrivate) return [];
    return named.identity === undefined
      ? read.filter((name) => !contextWatch.isNoIdentity(operation.context, name))
      : read;
  }

  /** Warns of what two contexts of one identity differ in, although they share the response. */
  #comparePrivateReads(names: readonly string[]): void {
    const { privateReads, parts } = this.shared;
    const { operation, named } = this.asked;
    const context = operation.context as Readonly<Record<string, unknown>>;
    for (const name of names) {
      const value = parts.contextWatch.pause(() => context[name]);
      // Objects are new in each context.
      if (!["string", "number", "boolean"].includes(typeof value)) continue;
      const read = `${name} ${named.identity}`;
      if (privateReads.has(read) && privateReads.get(read) !== value)
        parts.onceLog.warn(
          `graphql-cached: a response is shared by the contexts of one identity, although its execution has read \`context.${name}\`, in which two of them differ; add "$context.${name}" to \`responses.key\`, or list it in createCache({ privacy: { sharedContextKeys } }) if no response depends on it`,
        );
      else if (privateReads.size < MAX_PRIVATE_READS) privateReads.set(read, value);
    }
  }

  /** Returns the tags besides those of the parts. Undefined if the option failed, logged once. */
  #tags(): readonly string[] | undefined {
    const { options, parts } = this.shared;
    const { tags = options.tags, operationName, variables, context } = this.asked.operation;
    if (tags === undefined) return [];
    try {
      const given: unknown = tags({ operationName, variables: variables ?? {}, context });
      const promised = (): CachedError => optionInvalid("expected an array of strings, got a promise");
      const own = checkedTags(notPromise(given, promised), "its result");
      checkTagsOfValue(own, optionInvalid);
      return own;
    } catch (error) {
      parts.onceLog.warn(
        `graphql-cached: responses are not stored, since \`responses.tags\` has failed: ${inOneLine(messageOf(error))}; return an array of non-empty strings such as ["Page:home"]`,
      );
      return undefined;
    }
  }

  #noteUnstorable(): void {
    const { admission, parts } = this.shared;
    admission.unstorable(this.asked.learned, this.key.digest, parts.clock.now() + parts.errorBackoffMs);
  }
}

interface RunningLoad {
  readonly parts: CollectedParts;
  readonly control: ResultControl;
  readonly startedAt: number;
  /** Settles with what is stored, or with `NOT_STORED`. */
  readonly loaded: Deferred<unknown>;
  readonly stopWatch: () => readonly string[];
  readonly stopCollection: () => void;
  hasEnded: boolean;
}

function skip({ control, loaded }: RunningLoad): void {
  control.skip();
  loaded.resolve(NOT_STORED);
}

function policyOf({ parts, options, parsed }: ResponsesParts, scope: Policy["scope"], canRefresh: boolean): Policy {
  const { maxAgeMs, staleWhileRevalidateMs, staleIfErrorMs } = options;
  return {
    maxAgeMs,
    staleWhileRevalidateMs,
    staleIfErrorMs,
    // The load is the execution of a request, unless the server lets the cache execute as well.
    refresh: canRefresh ? "BACKGROUND" : "FOREGROUND",
    earlyRefreshBeta: 0,
    neverExpires: false,
    // The load says how long a response without an answer is fresh.
    negativeMaxAgeMs: maxAgeMs,
    jitterRatio: parts.defaults.jitter ?? 0.1,
    scope,
    readOnly: parsed !== undefined,
  };
}

/** Of a response that was shared without the store. */
const NOTHING_KNOWN = { subjects: [], freshForMs: 0, staleForMs: 0, ageMs: 0 };

/** Stands for a response that is not stored: those who waited for it execute it themselves. */
const NOT_STORED = { notStored: true };

/** The tags of every response: those that its execution adds. */
const TAGS_OF_LOADS: RequestTags = { subjects: [], isOwn: false, known: NO_TAGS, subjectsOf: () => [] };

const MAX_PRIVATE_READS = 10_000;

const REMEDY = (path: string): string =>
  `add ${JSON.stringify(path)} to \`responses.key\`, or set \`responses.scope\` to "PRIVATE", without \`guests\``;
