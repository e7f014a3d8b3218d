import type { GraphQLFieldResolver, GraphQLResolveInfo } from "graphql";
import { CachedError } from "../../base/errors.js";
import { executionOf, infoOfLoad, noVariables } from "../../base/graphql-version.js";
import type { Key, Subject } from "../../keys/key.js";
import type { FieldLoader, FieldRequest } from "../../loader/field-loader.js";
import { contextChanged, type Identity, identityMistake, identityOf } from "../../loader/identity.js";
import { takeKept } from "../../loader/kept-report.js";
import type { Observer } from "../../loader/request-states.js";
import type { CacheParts, RequestFactory } from "../../parts.js";
import type { Policy } from "../../policy/policy.js";
import type { FieldRule, ObservedLoad } from "../../schema-rules.js";
import type { ResponseHint } from "../../store/entry-layout.js";
import type { BypassReason } from "../../telemetry/events.js";
import type { Memory } from "../../tier/memory/memory.js";
import { canBeKept, KnownKey } from "../../tier/request/known-key.js";
import type { Excess } from "../../tier/request/loaded.js";
import type { ReadReport, ReadRequest, Validator } from "../../tier/request/request.js";
import type { ResultControl } from "../../tier/request/result-control.js";
import type { RequestTags } from "../../tier/request/tags.js";
import type { CallSignals, Waiters } from "../../tier/request/waiters.js";
import {
  changedKeyOf,
  contextPartsOf,
  hasResultTags,
  keyMistake,
  keyOf,
  knownTagsOf,
  requestTagsOf,
  tagsBeforeLoad,
} from "../compile/field-rule.js";
import type { ExistenceCheck } from "../existence/field-existence.js";
import { type CollectedHints, collectHints, detachedCacheControl } from "../hints/response-hint.js";
import { FieldKeys } from "./field-keys.js";
import { infoOfControl } from "./result-control.js";
import { ResultValidator } from "./result-validator.js";

/**
 * A cached field: identity, then key, then the memory, and only then a request for the loader of
 * the execution. A hit in memory makes nothing but its value. A call without a usable key resolves
 * as if the field were not cached.
 */
class CachedField {
  readonly isPrivate: boolean;
  readonly isPortable: boolean;
  readonly validator: ResultValidator;
  readonly keyProperties: readonly string[];
  readonly hasResultTags: boolean;
  /** Whether loads have a parent that the key does not contain as a whole. */
  readonly hasParent: boolean;
  readonly #names: FieldKeys;

  constructor(
    readonly rule: FieldRule,
    readonly resolver: Resolver,
    readonly parts: CacheParts,
    readonly existence?: ExistenceCheck,
    readonly uncached: Resolver = resolver,
  ) {
    this.validator = new ResultValidator(parts.resolvers);
    this.isPrivate = rule.policy.scope === "PRIVATE";
    this.isPortable = canRunElsewhere(rule);
    this.hasResultTags = hasResultTags(rule);
    this.hasParent = !rule.isRoot && !rule.keyPaths.some(({ root, steps }) => root === "source" && steps.length === 0);
    this.keyProperties = rule.keyPaths.flatMap(({ root, steps }) => (root === "context" ? steps.slice(0, 1) : []));
    this.#names = new FieldKeys(rule, parts);
  }

  resolve(source: unknown, args: Args, context: unknown, info: GraphQLResolveInfo): unknown {
    const { rule, isPrivate } = this;
    const { requestStates, identify, tier, channel } = this.parts;
    const identity = isPrivate ? identityOf(identify, context) : undefined;
    if (isPrivate) tier.loads.readPrivate(rule.coordinate, identity ?? "");
    const override = requestStates.hasOverrides ? requestStates.overrideOf(context) : undefined;
    if (override === "BYPASS") return this.#bypass(source, args, context, info, "REQUESTED");
    if (!tier.modes.isUnrestricted && tier.modes.isOff(rule.coordinate))
      return this.#bypass(source, args, context, info, "MODE_OFF");
    if (isPrivate && identity === undefined) {
      const mistake = identityMistake(identify, context, rule.coordinate);
      return this.#bypass(source, args, context, info, "NO_IDENTITY", mistake);
    }
    try {
      const { memory } = tier;
      const known = this.#names.of(source, args, context, info, identity);
      const observer = requestStates.hasObservers ? requestStates.observerOf(context) : undefined;
      const execution = requestStates.execution(info, observer);
      // The value is loaded now, whatever is stored.
      const isForced = override === "REFRESH";
      const usesMemory = !isForced && memory !== undefined;
      if (usesMemory && known.until !== 0 && tier.isPlain && memory.serves(known, execution.since)) {
        const type = rule.reference?.type ?? info.returnType;
        if (this.validator.isKeptPlausible(known, type, info))
          return takeKept(known, memory, rule.policy, observer, info, channel);
      }
      const keeps = usesMemory && canBeKept(known);
      return execution.read(
        new FieldCall(this, known, source, args, context, info, identity, isForced, observer, execution, keeps),
      );
    } catch (error) {
      const mistake = error instanceof CachedError ? error : keyMistake(rule.coordinate, error);
      return this.#bypass(source, args, context, info, "KEY_UNUSABLE", mistake);
    }
  }

  /** Returns the request of a load that belongs to no query. Throws if there is no usable key. */
  detachedRequest(source: unknown, args: Args, context: unknown, info: GraphQLResolveInfo): ReadRequest {
    const { rule, parts } = this;
    const roots = { source, args, context, info };
    const key = keyOf(rule, roots, undefined, parts.keys);
    const known = new KnownKey(key, knownTagsOf(rule, roots, undefined, parts.keys));
    const execution = parts.requestStates.execution(info);
    const call = new FieldCall(this, known, source, args, context, info, undefined, false, undefined, execution, false);
    call.isDetached = true;
    return call;
  }

  #bypass(
    source: unknown,
    args: Args,
    context: unknown,
    info: GraphQLResolveInfo,
    reason: BypassReason,
    error?: CachedError,
  ): unknown {
    const { channel, requestStates } = this.parts;
    const { coordinate } = this.rule;
    const mistake = error === undefined ? {} : { error };
    channel.publish({ name: "resolver.bypassed", coordinate, digest: "", reason, ...mistake });
    const report = { outcome: "bypassed", isPrivate: this.isPrivate, reason } as const;
    const observer = requestStates.observerOf(context);
    observer?.onRead(coordinate, report, info);
    // Before it reads what the cached fields below it are made of.
    if (this.rule.isRoot) requestStates.execution(info, observer);
    return this.uncached(source, args, context, info);
  }
}

export type Args = Record<string, unknown>;
export type Resolver = GraphQLFieldResolver<unknown, unknown, Args>;

/** `uncached`: the resolver of calls that bypass the cache. Default: `resolve`. */
export function cachedResolver(
  rule: FieldRule,
  resolve: Resolver,
  parts: CacheParts,
  existence?: ExistenceCheck,
  uncached?: Resolver,
): Resolver {
  const field = new CachedField(rule, resolve, parts, existence, uncached);
  return (source, args, context, info) => field.resolve(source, args, context, info);
}

const NO_PARTS: readonly string[] = [];

/** The request of one call of a cached field: what its key and its loads depend on. */
class FieldCall implements FieldRequest {
  readonly key: Key;
  readonly policy: Policy;
  tags: RequestTags;
  readonly contextParts: readonly string[];
  readonly mayExist: (() => Promise<boolean>) | undefined;
  readonly onRead: ((report: ReadReport) => void) | undefined;
  readonly validator: Validator;
  readonly call: Pick<GraphQLResolveInfo, "returnType" | "path">;
  /** Whether its load belongs to no query, and its context to no request: see `detachedRequest`. */
  isDetached = false;
  ending: ReadRequest["ending"] = undefined;
  caller: ReadRequest["caller"] = undefined;
  recorded: CollectedHints | undefined = undefined;
  observed: ObservedLoad | undefined = undefined;
  changedKey: Excess | undefined = undefined;
  /** Whether its load was known to be outdated at its start, and the latest position shown then. */
  wasKnownOutdated = false;
  loadedAt = 0;

  /** Takes the resolver's arguments one by one: one object less for each hit. */
  constructor(
    readonly field: CachedField,
    readonly known: KnownKey,
    readonly source: unknown,
    readonly args: Args,
    readonly context: unknown,
    readonly info: GraphQLResolveInfo,
    readonly identity: Identity | undefined,
    readonly isForced: boolean,
    readonly observer: Observer | undefined,
    readonly execution: FieldLoader,
    readonly usesMemory: boolean,
  ) {
    const { rule, parts, existence } = field;
    const { key, tags } = known;
    this.key = key;
    this.policy = rule.policy;
    this.tags = field.hasResultTags ? requestTagsOf(rule, tags, this, parts.keys) : tags;
    this.contextParts = rule.contextPaths.length === 0 ? NO_PARTS : contextPartsOf(rule, context, parts.keys);
    this.validator = field.validator;
    this.call = rule.reference === undefined ? info : { ...info, returnType: rule.reference.type };
    this.mayExist = existence?.(this);
    this.onRead = observer === undefined ? undefined : reportRead;
  }

  acceptsKept(): boolean {
    const { known, field } = this;
    const { validator, parts } = field;
    if (validator.isKeptPlausible(known, this.call.returnType, this.info)) return true;
    if (validator.mistakeIn(known.value, this) === undefined) return true;
    // The store has the same value, which is reported when it is read.
    parts.tier.memory?.drop(known);
    return false;
  }

  takeKept(): unknown {
    const { tier, channel } = this.field.parts;
    return takeKept(this.known, tier.memory as Memory, this.policy, this.observer, this.info, channel);
  }

  missed(respond: () => unknown): unknown {
    return this.execution.readMissed(this, respond);
  }

  get input(): (() => unknown) | undefined {
    const { isPortable, hasParent } = this.field;
    return isPortable && !(hasParent && this.mayBeOutdated) ? inputOf : undefined;
  }

  get onHint(): ((hint: ResponseHint) => void) | undefined {
    return this.observer?.onHint === undefined ? undefined : reportHint;
  }

  get owner(): object {
    return executionOf(this.info).owner;
  }

  load(waiters: Waiters, result: ResultControl): unknown {
    this.recorded = collectHints(this.info);
    const own = { ...this.recorded.own, ...infoOfLoad(this.info, waiters), ...infoOfControl(result) };
    const { rule, parts, keyProperties, resolver, hasResultTags, isPrivate } = this.field;
    this.observed = rule.queryUse.observe(this.info, own);
    if (hasResultTags) this.tags = tagsBeforeLoad(rule, this.tags, this, parts.keys);
    const { source, args, context } = this;
    const { info } = this.observed;
    this.changedKey = changedKeyOf(rule, this.key, this, this.identity);
    const begin = (): unknown => resolver(source, args, context, info);
    this.wasKnownOutdated = this.isOutdated();
    this.loadedAt = parts.invalidations.shownPosition;
    if (this.isDetached) return begin();
    return parts.contextWatch.run({ coordinate: rule.coordinate, keyProperties, isPrivate }, context, begin);
  }

  get begunAt(): number {
    const { position, restarts } = this.execution;
    // Whoever began before a restart did so before all who began after it.
    return restarts === this.field.parts.invalidations.restarts ? position : 0;
  }

  /**
   * Whether the value was invalidated since the execution began. Its parent may have been read
   * before that, and the position of a lease is later, which would hide the invalidation. (P2)
   */
  isOutdated(): boolean {
    const { field, execution, key, tags } = this;
    // What a worker gets was compared before it was sent.
    if (!field.hasParent || this.isDetached || !this.mayBeOutdated) return false;
    return field.parts.invalidations.isOlderThanKnown(execution, key, tags.subjects);
  }

  wasOutdated(subjectsOf: () => readonly Subject[]): boolean {
    const { field, execution, loadedAt } = this;
    const { invalidations } = field.parts;
    if (!field.hasParent || this.isDetached) return false;
    if (this.wasKnownOutdated || execution.restarts !== invalidations.restarts) return true;
    if (execution.position >= loadedAt) return false;
    const subjects = subjectsOf();
    const last = Math.max(invalidations.lastOf("hard", subjects), invalidations.lastOf("soft", subjects));
    // What was invalidated later is for the store to refuse.
    return last > execution.position && last <= loadedAt;
  }

  get mayBeOutdated(): boolean {
    return this.field.parts.invalidations.hasNewsSince(this.execution);
  }

  changed(): CachedError | undefined {
    const { isPrivate, rule, parts } = this.field;
    const { coordinate } = rule;
    if (isPrivate && identityOf(parts.identify, this.context) !== this.identity)
      return contextChanged(coordinate, "identity");
    if (rule.contextPaths.length === 0) return undefined;
    const now = contextPartsOf(rule, this.context, parts.keys);
    const changed = this.contextParts.findIndex((part, index) => part !== now[index]);
    return changed < 0 ? undefined : contextChanged(coordinate, rule.contextPaths[changed]?.text as string);
  }

  signals(): CallSignals | undefined {
    if (this.isDetached) return undefined;
    const { parts, rule } = this.field;
    return parts.signals.of(rule.coordinate, this.context, this.info);
  }

  hintOf(): ResponseHint | undefined {
    return this.recorded?.hint();
  }

  excess(): Excess | undefined {
    const { rule } = this.field;
    return this.changedKey ?? this.observed?.excess() ?? hintExcess(rule, this.recorded?.hint());
  }
}

/** For workers, whose `info` has no query. Undefined if loads need more than args and parent. */
export function requestFactoryOf(
  rule: FieldRule,
  resolve: Resolver,
  info: unknown,
  parts: CacheParts,
): RequestFactory | undefined {
  if (!canRunElsewhere(rule)) return undefined;
  const field = new CachedField(rule, resolve, parts);
  return (input, context) => {
    const { args, source } = input as { args: Args; source: unknown };
    const own = { variableValues: noVariables(), cacheControl: detachedCacheControl() };
    return field.detachedRequest(source, args, context, { ...(info as GraphQLResolveInfo), ...own });
  };
}

function inputOf(this: FieldCall): unknown {
  return { args: this.args, source: this.source };
}

function reportRead(this: FieldCall, report: ReadReport): void {
  this.observer?.onRead(this.key.coordinate, report, this.info, this.key);
}

function reportHint(this: FieldCall, hint: ResponseHint): void {
  this.observer?.onHint?.(hint, this.info);
}

/** The hint PRIVATE does not say whose a value is. A field that declares itself PUBLIC wins. */
function hintExcess({ coordinate, policy }: FieldRule, hint: ResponseHint | undefined): Excess | undefined {
  if (policy.scope === "PRIVATE" || policy.isDeclaredPublic === true || hint?.scope !== "PRIVATE") return undefined;
  const mistake = `\`${coordinate}\`: the value is not cached: expected a PUBLIC value, got one for which its resolver set the cache hint PRIVATE; set scope: PRIVATE, or scope: PUBLIC on the field itself if every caller gets the same value`;
  const error = new CachedError("CACHED_SCOPE_NARROWED", mistake, { coordinate });
  return { kind: "unkeyable", isNarrowed: true, error };
}

/** Whether loads depend only on arguments and parent, so that another process can run them. */
const canRunElsewhere = ({ policy, keyPaths, tags }: FieldRule): boolean =>
  policy.scope === "PUBLIC" &&
  keyPaths.every(({ root }) => root === "args" || root === "source") &&
  tags.every(({ pieces }) => pieces.every((piece) => typeof piece === "string" || piece.root !== "context"));
