import type { GraphQLSchema } from "graphql";
import { notPromise } from "../base/deferred.js";
import { type CachedError, inOneLine, messageOf, optionInvalid } from "../base/errors.js";
import { getOrMake } from "../base/multimap.js";
import { StoredText } from "../codec/packing.js";
import { type Key, RESPONSES, type Variant } from "../keys/key.js";
import { checkedTags, checkTagsOfValue } from "../keys/tag-template.js";
import { type Identity, identityMistake, identityOf } from "../loader/identity.js";
import type { Observer } from "../loader/request-states.js";
import type { CacheParts } from "../parts.js";
import { NEGATIVE_MAX_AGE_SECONDS, type Policy } from "../policy/policy.js";
import type { Memory } from "../tier/memory/memory.js";
import { KnownKey, type Memo } from "../tier/request/known-key.js";
import type { ReadReport, ReadRequest } from "../tier/request/request.js";
import { ServedReport } from "../tier/request/served-report.js";
import { NO_TAGS, type RequestTags } from "../tier/request/tags.js";
import { Admission, type OperationState } from "./admission.js";
import { CollectedParts, collecting } from "./collected-parts.js";
import type { OperationPlan, OperationPlanners } from "./operation-plan.js";
import type { ResolvedResponses } from "./options.js";
import { PrivateReads } from "./private-reads.js";
import {
  type ExecutionLoad,
  endWith,
  leasedExecution,
  type Operation,
  type ResponseAge,
  type ResponseExecution,
  unrecordedExecution,
  unstoredExecution,
} from "./response-execution.js";
import { type ResponseKey, reportStart, responseKey, shapeOf } from "./response-key.js";
import { StoredResponse } from "./stored-response.js";

/**
 * Whole responses as entries of the cache. The load of a response is its execution by the server:
 * this class only decides whether there has to be one, and what becomes of its result. So errors,
 * hints, traces and hooks are those of an ordinary request.
 */
export class ResponseCache {
  readonly options: ResolvedResponses;
  readonly #parts: CacheParts;
  readonly #usesPolicies: boolean;
  readonly #planners: OperationPlanners;
  readonly #variants = new WeakMap<GraphQLSchema, Variant>();
  readonly #admission: Admission;
  readonly #privateReads: PrivateReads;
  readonly #memo: Memo;
  readonly #slot: number;
  /** The parsed data of texts in memory, which readers get copies of. */
  readonly #shared: WeakMap<StoredText, Record<string, unknown>> | undefined;

  /**
   * `usesPolicies`: whether the policies of cached fields decide how long responses are kept.
   * Otherwise the server does.
   */
  constructor(parts: CacheParts, planners: OperationPlanners, options: ResolvedResponses, usesPolicies: boolean) {
    const hasMemory = parts.tier.memory !== undefined;
    this.#parts = parts;
    this.#planners = planners;
    this.options = options;
    this.#usesPolicies = usesPolicies;
    const { maxOperations } = options;
    this.#admission = new Admission({ minHits: hasMemory ? MIN_HITS_WITH_MEMORY : MIN_HITS, maxOperations });
    this.#privateReads = new PrivateReads(parts);
    this.#memo = parts.memos.of("responses");
    this.#slot = this.#memo.newSlot();
    this.#shared = parts.tier.memory === undefined ? undefined : new WeakMap();
  }

  /** Prepares for a schema when a server starts, so that no request has to. */
  prepare(schema: GraphQLSchema): void {
    this.#variantOf(schema);
  }

  /**
   * Returns what to do with an operation. Undefined: nothing. `observer`: that of the request,
   * which goes on to be told of all reads. Never rejects.
   */
  begin(operation: Operation, observer?: Observer): Promise<Begun> | undefined {
    const { requestStates } = this.#parts;
    // What it reads is a part of the response in whose execution it is asked for.
    if (requestStates.isPartOfResponse(operation.context)) return undefined;
    // What it reads is a part of no other response.
    if (observer === undefined) requestStates.own(operation.context);
    else if (requestStates.observer(operation.context) === undefined)
      requestStates.observe(operation.context, observer);
    try {
      return this.#begin(operation, observer);
    } catch {
      // Whatever it was, the operation is executed as without the cache.
      return undefined;
    }
  }

  ended(context: object): void {
    this.#parts.requestStates.release(context);
  }

  /**
   * Returns the age of the response of an operation by the schema and the policies of cached
   * fields, for servers without rules of their own.
   */
  ageOf(operation: Operation): ResponseAge | undefined {
    const { ownMaxAge = 0, isPrivate = false } = this.#planners.plan(operation) ?? {};
    return ownMaxAge === 0 ? undefined : { maxAge: ownMaxAge, isPrivate };
  }

  #begin(operation: Operation, observer: Observer | undefined): Promise<Begun> | undefined {
    const { requestStates, tier, clock, loaders } = this.#parts;
    const variant = this.#variantOf(operation.schema);
    const plan = this.#planners.plan(operation);
    if (plan === undefined || plan.obstacle !== undefined) return undefined;
    const isExpected = (this.#usesPolicies ? plan.ownMaxAge : plan.hintedMaxAge) > 0;
    if (this.#usesPolicies && !isExpected) return undefined;
    const learned = this.#admission.of(plan.digest);
    const owner = this.#ownerOf(operation.context, plan, learned);
    const { isPrivate } = owner;
    const unrecorded = async (): Promise<Begun> => executing(unrecordedExecution(isPrivate));
    const override = requestStates.overrideOf(operation.context);
    if (override === "BYPASS" || tier.loads.enclosing() !== undefined) return unrecorded();
    // Which loaders its resolvers call is not known.
    const read = tier.modes.isUnrestricted ? [] : [RESPONSES, ...plan.coordinates, ...loaders.keys()];
    if (read.some((coordinate) => tier.modes.isOff(coordinate))) return unrecorded();
    if (!(learned.isCacheable ?? isExpected)) {
      const execution = unstoredExecution(isPrivate, (age) => {
        learned.isCacheable = age !== undefined;
      });
      return Promise.resolve(executing(execution));
    }
    if (!owner.isKnown) return unrecorded();
    const isWatched = !isPrivate && !plan.isPublic;
    const { keyPaths } = this.options;
    const named = responseKey(this.#parts, operation, plan, { ...owner, variant, keyPaths, isWatched });
    if (named === undefined || this.#admission.isUnstorable(named.key.digest, clock.now())) return unrecorded();
    return this.#read({ operation, plan, learned, named, observer, isForced: override === "REFRESH" });
  }

  /**
   * Returns whose the response to an operation is. Whose it is can be unknown: then it is not
   * stored, and logged once if a mistake is the reason.
   */
  #ownerOf(context: object, plan: OperationPlan, learned: OperationState): Owner {
    const { identify, onceLog } = this.#parts;
    const { scope, guests } = this.options;
    const identity = identityOf(identify, context);
    const isOfCaller = plan.isPrivate || learned.isPrivate;
    const isPrivate = isOfCaller || (scope === "PRIVATE" && !plan.isPublic);
    if (identity !== undefined) return { identity, isPrivate, isKnown: true };
    const mistake =
      identify === undefined ? isPrivate && IDENTIFY_MISSING : identityMistake(identify, context, RESPONSES)?.message;
    if (typeof mistake === "string")
      onceLog.warn(
        `graphql-cached: responses of one caller are not stored, since it is not known whose they are: ${mistake}`,
      );
    const isGuest = typeof mistake !== "string" && !isOfCaller && (!isPrivate || guests === "PUBLIC");
    return { identity, isPrivate: isPrivate && !isGuest, isKnown: isGuest };
  }

  /** Answers from memory, or else from the store, or by an execution. */
  async #read(asked: Asked): Promise<Begun> {
    const { key, isPrivate } = asked.named;
    const isKnown = this.#admission.isKnown(asked.learned);
    // A client can send any number of operations once: none of them takes the place of values in
    // memory.
    const known = isKnown ? this.#knownOf(key) : new KnownKey(key, NO_TAGS);
    const { memory } = this.#parts.tier;
    const policy = this.#policyOf(isPrivate ? "PRIVATE" : "PUBLIC", asked.operation.execute !== undefined);
    if (memory !== undefined && !asked.isForced && (await this.#parts.tier.confirmed(known))) {
      const begun = this.#fromMemory(asked, memory, known, policy);
      if (begun !== undefined) return begun;
    }
    const passes = isKnown && !asked.isForced && this.#admission.passes(asked.learned, key.digest);
    // It would be in memory.
    if (passes && memory !== undefined) return executing(unrecordedExecution(isPrivate));
    return this.#fromStore(asked, isKnown && !passes, known, policy);
  }

  #fromMemory(asked: Asked, memory: Memory, known: KnownKey, policy: Policy): Begun | undefined {
    const { learned, named, observer } = asked;
    const { kept } = known;
    const text = memory.take(known);
    if (!(text instanceof StoredText) || kept === undefined) return undefined;
    const { key } = named;
    this.#parts.channel.served(RESPONSES, key, "hit");
    const now = memory.now();
    const report = new ServedReport(policy, NO_TAGS, "hit", kept.freshUntilAt - now, now - kept.grantedAt, kept);
    observer?.onRead(RESPONSES, report, undefined, key);
    this.#admission.hit(learned, key.digest);
    return this.#served(text, report, asked);
  }

  #fromStore(asked: Asked, mayStore: boolean, known: KnownKey, policy: Policy): Promise<Begun> {
    const { operation, learned, named, observer, isForced } = asked;
    const { tier, clock } = this.#parts;
    const { key } = named;
    const admission = this.#admission;
    const isAdmitted = isForced || (mayStore && admission.hasRoom(learned, clock.now()));
    return new Promise((resolve) => {
      const execute = (execution = unrecordedExecution(named.isPrivate)): void => resolve(executing(execution));
      let report: ReadReport | undefined;
      const request: ReadRequest = {
        key,
        known,
        policy,
        isForced,
        tags: TAGS_OF_LOADS,
        // The server has begun to work on the request before: there is nothing to hold back.
        needsNoSlot: true,
        load: (waiters, control) => {
          // The caller has the stale response.
          const isRefresh = report?.outcome === "stale";
          const older = async (): Promise<StoredResponse | undefined> => {
            const value = await read.catch(() => undefined);
            return value instanceof StoredText ? new StoredResponse(value, this.#shared) : undefined;
          };
          const { execution, loaded } = this.#lease(asked, { control, older });
          // It may never end, and everything of unknown origin would be a part of it.
          waiters.onOver(() => execution.abandon());
          if (isRefresh) void this.#refresh(operation, execution);
          else execute(execution);
          return loaded;
        },
        changed: () => named.changed(),
        onRead: (one) => {
          report = one;
          // It would be encoded up to the limit by every request.
          if (one.outcome !== "bypassed" && one.refusal === "too-large") this.#noteUnstorable(learned, key);
          observer?.onRead(RESPONSES, one, undefined, key);
        },
      };
      const read = isAdmitted ? tier.read(request, "none") : tier.peek(request);
      read.then(
        (value) => {
          if (value instanceof StoredText && report !== undefined) {
            // That of the own execution is no hit.
            if (report.outcome !== "loaded") admission.hit(learned, key.digest);
            resolve(this.#served(value, report, asked));
          } else execute();
        },
        () => execute(),
      );
    });
  }

  /** Executes an operation whose caller has the stale response. Never rejects. */
  async #refresh(operation: Operation, execution: ResponseExecution): Promise<void> {
    const run = async (): Promise<object> => (await operation.execute?.()) as object;
    await endWith(execution, run, () => this.ageOf(operation)).catch(() => undefined);
  }

  #knownOf(key: Key): KnownKey {
    const row = this.#memo.row(key.hash);
    const known = row.keys[this.#slot];
    if (known !== undefined) return known;
    const made = new KnownKey(key, NO_TAGS, row);
    this.#memo.remember(made, this.#slot);
    return made;
  }

  #noteUnstorable(learned: OperationState, { digest }: Key): void {
    this.#admission.unstorable(learned, digest, this.#parts.clock.now() + this.#parts.errorBackoffMs);
  }

  /**
   * Returns the tags of a response besides those of its parts. Undefined: the option has failed,
   * which is logged once.
   */
  #tagsOf({ tags = this.options.tags, operationName, variables, context }: Operation): readonly string[] | undefined {
    if (tags === undefined) return [];
    const fail = (mistake: string): CachedError => optionInvalid(mistake);
    try {
      const given: unknown = tags({ operationName, variables: variables ?? {}, context });
      const own = checkedTags(
        notPromise(given, () => fail("expected an array of strings, got a promise")),
        "its result",
      );
      checkTagsOfValue(own, fail);
      return own;
    } catch (error) {
      this.#parts.onceLog.warn(
        `graphql-cached: responses are not stored, since \`responses.tags\` has failed: ${inOneLine(messageOf(error))}; return an array of non-empty strings such as ["Page:home"]`,
      );
      return undefined;
    }
  }

  #lease(asked: Asked, load: Pick<ExecutionLoad, "control" | "older">): ReturnType<typeof leasedExecution> {
    const { operation, plan, learned, observer, named } = asked;
    const { key, isPrivate, isWatched, contextPaths } = named;
    const { clock, contextWatch, requestStates, defaults } = this.#parts;
    const { context } = operation;
    const parts = new CollectedParts(this.#parts, contextPaths);
    const isCompared = isPrivate && contextWatch.isReporting;
    const contextReads = isWatched || isCompared ? this.#collectReads(asked) : () => [];
    const startedAt = clock.now();
    return leasedExecution({
      ...load,
      parts,
      run: (execute) => requestStates.executeFor(parts, execute),
      isPrivate,
      contextPaths,
      options: this.options,
      startedAt,
      negativeMaxAgeMs: (defaults.negativeMaxAge ?? NEGATIVE_MAX_AGE_SECONDS) * 1_000,
      tags: () => this.#tagsOf(operation),
      expectsReads: plan.coordinates.length > 0,
      contextReads,
      ended: requestStates.collect(context, collecting(observer, parts)),
      stored: (untilAt) => this.#admission.stored(learned, key.digest, untilAt),
      unstorable: (isOfCaller) => {
        if (isOfCaller) learned.isPrivate = true;
        else this.#noteUnstorable(learned, key);
      },
    });
  }

  /**
   * Returns what ends the watch of the context, and returns what was read that is neither in the
   * key nor the same for all who share the response.
   */
  #collectReads({
    operation: { context },
    named: { isPrivate, contextPaths, identity },
  }: Asked): () => readonly string[] {
    const { contextWatch, identify } = this.#parts;
    const end = contextWatch.collect(context, contextPaths);
    if (identity === undefined) {
      identityOf(identify, context);
      return () => end().filter((name) => !contextWatch.isNoIdentity(context, name));
    }
    if (!isPrivate) return end;
    return () => {
      this.#privateReads.note(identity, context, end());
      return [];
    };
  }

  #served(text: StoredText, report: ReadReport, { plan, named: { isPrivate, contextPaths } }: Asked): Begun {
    const { freshForMs, ageMs } = report.outcome === "bypassed" ? { freshForMs: 0, ageMs: 0 } : report;
    const response = new StoredResponse(text, this.#shared);
    return { kind: "served", response, freshForMs, ageMs, isPrivate, report, plan, contextPaths };
  }

  #policyOf(scope: Policy["scope"], canRefresh: boolean): Policy {
    const { maxAgeMs, staleWhileRevalidateMs, staleIfErrorMs } = this.options;
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
      jitterRatio: this.#parts.defaults.jitter ?? 0.1,
      scope,
      readOnly: this.#shared !== undefined,
    };
  }

  #variantOf(schema: GraphQLSchema): Variant {
    return getOrMake(this.#variants, schema, () => {
      const variant = this.#parts.keys.variant({
        kind: "response",
        shape: shapeOf(schema, this.#parts),
        versions: [],
        // Servers with other options share no responses.
        keyTemplate: [JSON.stringify([this.options.maxAgeMs, this.options.extensions, this.#usesPolicies])],
        tagTemplates: [],
      });
      this.#parts.variants.declare(RESPONSES, variant);
      if (this.options.tags === undefined) reportStart(schema, this.#parts);
      return variant;
    });
  }
}

/** Whose a response is. `isKnown`: whether that is certain. */
interface Owner {
  readonly identity: Identity | undefined;
  readonly isPrivate: boolean;
  readonly isKnown: boolean;
}

/** An operation that may be answered with a stored response. */
interface Asked {
  readonly operation: Operation;
  readonly plan: OperationPlan;
  readonly learned: OperationState;
  readonly named: ResponseKey;
  readonly observer: Observer | undefined;
  readonly isForced: boolean;
}

export type Begun =
  | {
      readonly kind: "served";
      readonly response: StoredResponse;
      readonly freshForMs: number;
      readonly ageMs: number;
      readonly isPrivate: boolean;
      readonly report: ReadReport;
      readonly plan: OperationPlan;
      readonly contextPaths: readonly string[];
    }
  /** Execute it, and call `end` with what came of it. */
  | { readonly kind: "execute"; readonly execution: ResponseExecution };

const executing = (execution: ResponseExecution): Begun => ({ kind: "execute", execution });

const IDENTIFY_MISSING =
  "createCache: `identify`: expected a function, got undefined; pass createCache({ identify: (context) => context.userId })";

/**
 * How many hits pay for a stored response, by the page of `bench/scenarios/responses.ts`. With
 * memory, an execution that is not stored costs less, since its parts come from there.
 */
const MIN_HITS = 1;
const MIN_HITS_WITH_MEMORY = 3;

/** The tags of every response: those that its execution adds. */
const TAGS_OF_LOADS: RequestTags = { subjects: [], isOwn: false, known: NO_TAGS, subjectsOf: () => [] };
