import { hash as hashOf } from "node:crypto";
import { type DocumentNode, type GraphQLSchema, isInterfaceType, isObjectType, print, printSchema } from "graphql";
import { LRUCache } from "lru-cache";
import { Deferred } from "../base/deferred.js";
import { variablesOf } from "../base/graphql-version.js";
import { StoredText } from "../codec/stored-text.js";
import { CollectedParts } from "../collected-parts.js";
import { canonicalize } from "../keys/canonical.js";
import { type Key, RESPONSES, type Subject, type Variant } from "../keys/key.js";
import { type Path, readPath } from "../keys/path.js";
import { contextChanged, type Identity, identityOf } from "../loader/identity.js";
import type { Observer } from "../loader/request-scope.js";
import type { CacheParts } from "../parts.js";
import type { Policy } from "../policy/policy.js";
import type { ObservedOutcome } from "../telemetry/events.js";
import { NO_TAGS, type ReadReport, type ReadRequest, type RequestTags, ResultTags } from "../tier/request/request.js";
import { LoadControl, type ResultControl } from "../tier/request/result-control.js";
import { Admission } from "./admission.js";
import { type OperationPlan, OperationPlanner } from "./operation-plan.js";
import type { ResolvedResponses } from "./options.js";
import { reportStart } from "./start-report.js";
import { StoredResponse, StoredResponses } from "./stored-response.js";

/** An operation that a server is about to execute. Its document is valid. */
export interface Operation {
  readonly schema: GraphQLSchema;
  readonly document: DocumentNode;
  readonly operationName: string | null | undefined;
  /** As the client has sent them. */
  readonly variables: Readonly<Record<string, unknown>> | null | undefined;
  readonly context: object;
  /** Whether a CDN keeps the response, so that it must not be outdated for as long as in a near cache. */
  readonly skipsNear?: boolean;
}

/** The result of an execution. */
export interface ExecutedResponse {
  readonly data?: unknown;
  readonly errors?: readonly unknown[] | undefined;
  readonly extensions?: Readonly<Record<string, unknown>> | undefined;
}

/** How long and for whom a response may be kept by the rules of the server. Undefined: not at all. */
export interface ResponseAge {
  /** Seconds. */
  readonly maxAge: number;
  readonly isPrivate: boolean;
}

/** What a server is to do with an operation. */
export type Begun =
  | {
      readonly kind: "served";
      readonly response: StoredResponse;
      readonly freshForMs: number;
      readonly ageMs: number;
      readonly isPrivate: boolean;
      readonly report: ReadReport;
      /** The paths into the context in its key. */
      readonly contextPaths: readonly string[];
    }
  /** Execute it, and call `end` with what came of it. */
  | { readonly kind: "execute"; readonly execution: ResponseExecution };

/** Executes an operation without the cache, and learns from it. */
export interface ResponseExecution {
  /** Whether the schema says that the response is PRIVATE. */
  readonly isPrivate: boolean;
  /** Collects what the response is made of. Undefined: nothing does. */
  readonly parts?: CollectedParts;
  /** The paths into the context in its key. */
  readonly contextPaths?: readonly string[];
  /**
   * Ends the execution. `age`: what the rules of the server say. `obstacle`: why the response must not be stored whatever they
   * say. Resolves to the response to send in its place, if it has errors and an older one may be served.
   */
  end(response: ExecutedResponse, age: ResponseAge | undefined, obstacle?: string): Promise<StoredResponse | undefined>;
  /** Ends it without a response. */
  abandon(): void;
}

/** Takes the place of a response that is not stored: those who have waited for it execute the operation themselves. */
const NOT_STORED = { notStored: true };
/** How many documents, and how many keys, a process remembers something of. */
const MAX_LEARNED = 10_000;

/**
 * How many hits pay for a stored response, by the page of `bench/scenarios/responses.ts`. With a near cache, an execution that is not
 * stored costs less, since it may read its parts from there.
 */
const MIN_HITS = 1;
const MIN_HITS_WITH_NEAR = 3;

/** What the executions of an operation have shown. */
interface Learned {
  /** Whether the last execution without a lookup was cacheable although the schema does not say so. Undefined: there was none. */
  isCacheable: boolean | undefined;
  /** Whether a response was PRIVATE although the schema does not say so. */
  isPrivate: boolean;
}

/** What belongs to one schema. */
interface SchemaState {
  readonly planner: OperationPlanner;
  readonly variant: Variant;
}

/**
 * Whole responses as entries of the cache. The load of a response is its execution by the server: this class only decides
 * whether there has to be one, and what becomes of its result. So errors, hints, traces and hooks are those of an ordinary
 * request.
 */
export class ResponseCache {
  readonly options: ResolvedResponses;
  readonly #parts: CacheParts;
  readonly #usesPolicies: boolean;
  readonly #policies: Readonly<Record<Policy["scope"], Policy>>;
  readonly #schemas = new WeakMap<GraphQLSchema, SchemaState>();
  readonly #learned = new LRUCache<string, Learned>({ max: MAX_LEARNED });
  readonly #admission: Admission;
  readonly #stored: StoredResponses;
  /** By digest of the key: until when a response is not looked up, since it could not be stored. */
  readonly #unstorable = new LRUCache<string, number>({ max: MAX_LEARNED });

  /** `usesPolicies`: whether the policies of cached fields decide how long responses are kept. Otherwise the server does. */
  constructor(parts: CacheParts, options: ResolvedResponses, usesPolicies: boolean) {
    this.#parts = parts;
    this.options = options;
    this.#usesPolicies = usesPolicies;
    this.#admission = new Admission(parts.tier.hasNear ? MIN_HITS_WITH_NEAR : MIN_HITS);
    this.#stored = new StoredResponses(parts.tier.hasNear);
    this.#policies = { PUBLIC: this.#policyOf("PUBLIC"), PRIVATE: this.#policyOf("PRIVATE") };
  }

  /** Prepares for a schema when a server starts, so that no request has to. */
  prepare(schema: GraphQLSchema): void {
    this.#stateOf(schema);
  }

  /**
   * Returns what to do with an operation; undefined if the cache has nothing to do with it. `observer`: that of the request,
   * which goes on to be told of all reads. Never rejects.
   */
  begin(operation: Operation, observer?: Observer): Promise<Begun> | undefined {
    const { scopes } = this.#parts;
    // What it reads is a part of no other response.
    if (observer === undefined) scopes.own(operation.context);
    else if (scopes.observer(operation.context) === undefined) scopes.observe(operation.context, observer);
    try {
      return this.#begin(operation, observer);
    } catch {
      // Whatever it was, the operation is executed as without the cache.
      return undefined;
    }
  }

  /** Notes that the request of a context has ended. */
  ended(context: object): void {
    this.#parts.scopes.release(context);
  }

  /** Returns the age of the response of an operation by the schema and the policies of cached fields, for servers without rules of their own. */
  ageOf({ schema, document, operationName }: Operation): ResponseAge | undefined {
    const plan = this.#stateOf(schema).planner.plan(document, operationName);
    return plan === undefined || plan.ownMaxAge === 0
      ? undefined
      : { maxAge: plan.ownMaxAge, isPrivate: plan.isPrivate };
  }

  #begin(operation: Operation, observer: Observer | undefined): Promise<Begun> | undefined {
    const { scopes, tier, identify, clock } = this.#parts;
    const { planner, variant } = this.#stateOf(operation.schema);
    const plan = planner.plan(operation.document, operation.operationName);
    if (plan === undefined || plan.obstacle !== undefined) return undefined;
    const override = scopes.overrideOf(operation.context);
    if (override === "BYPASS" || tier.enclosingLoad() !== undefined) return undefined;
    if (tier.modes.reasonOf(RESPONSES) === "MODE_OFF") return undefined;
    if (plan.coordinates.some((coordinate) => tier.modes.reasonOf(coordinate) !== undefined)) return undefined;
    const learned = this.#learnedOf(plan);
    const isExpected = (this.#usesPolicies ? plan.ownMaxAge : plan.hintedMaxAge) > 0;
    if (!(learned.isCacheable ?? isExpected)) {
      if (this.#usesPolicies) return undefined;
      const execution = new UnstoredExecution(plan.isPrivate, (age) => {
        learned.isCacheable = age !== undefined;
      });
      return Promise.resolve({ kind: "execute", execution });
    }
    const identity = identityOf(identify, operation.context);
    const isPrivate = plan.isPrivate || learned.isPrivate;
    if (isPrivate && identity === undefined) return undefined;
    const names = this.#keyOf(operation, plan, variant, identity, isPrivate);
    if (names === undefined) return undefined;
    const until = this.#unstorable.get(names.key.digest);
    if (until !== undefined && until > clock.now()) return undefined;
    return this.#read(operation, plan, learned, names, observer, override === "REFRESH");
  }

  async #read(
    operation: Operation,
    plan: OperationPlan,
    learned: Learned,
    names: ResponseNames,
    observer: Observer | undefined,
    isForced: boolean,
  ): Promise<Begun> {
    const { tier, scopes, clock, errorBackoffMs } = this.#parts;
    const policy = this.#policies[names.isPrivate ? "PRIVATE" : "PUBLIC"];
    const near =
      isForced || operation.skipsNear === true
        ? undefined
        : tier.near({ key: names.key, tags: NO_TAGS, near: undefined }, policy);
    if (near?.value instanceof StoredText) {
      this.#parts.channel.served(RESPONSES, names.key, "hit");
      const report = tier.nearReport(near, policy);
      observer?.onRead(RESPONSES, report, undefined, names.key);
      this.#admission.hit(plan.digest, names.key.digest);
      return this.#served(near.value, report, names);
    }
    const isObserved = tier.modes.reasonOf(RESPONSES) === "MODE_OBSERVE";
    if (isObserved) this.#reportObserved(names, observer);
    const isAdmitted = isForced || this.#admission.admits(plan.digest, names.key.digest);
    return new Promise((resolve) => {
      let report: ReadReport | undefined;
      const request = new ResponseRead(names, policy, isForced, {
        load: (control) => {
          const parts = new CollectedParts(this.#parts, {
            what: "a response",
            contextPaths: names.contextPaths,
            isBuild: false,
          });
          const stop = scopes.collect(operation.context, collecting(observer, parts));
          const execution = new LeasedExecution(parts, control, request, clock.now(), this.options, {
            ended: stop,
            expectsReads: names.hasCachedFields,
            contextPaths: names.contextPaths,
            unstorable: (isPrivate) => {
              if (isPrivate && !names.isPrivate) learned.isPrivate = true;
              else this.#unstorable.set(names.key.digest, clock.now() + errorBackoffMs);
            },
            stored: () => this.#admission.stored(plan.digest, names.key.digest),
            older: async () => {
              const value = await read.catch(() => undefined);
              return value instanceof StoredText ? this.#stored.open(value) : undefined;
            },
          });
          resolve({ kind: "execute", execution });
          return execution.stored;
        },
        changed: () => this.#changed(operation, names),
        onRead: (one) => {
          report = one;
          observer?.onRead(RESPONSES, one, undefined, names.key);
        },
      });
      const source = (outcome: ObservedOutcome | undefined): Promise<unknown> => {
        if (outcome === "hit" || outcome === "stale") this.#admission.hit(plan.digest, names.key.digest);
        else if (!isAdmitted) this.#admission.passed(plan.digest, names.key.digest);
        const execution = new ObservedExecution(names.isPrivate, this.options.extensions);
        resolve({ kind: "execute", execution });
        return execution.response;
      };
      const observe = (): Promise<unknown> => tier.observe(request, source, isAdmitted);
      const read = isObserved ? observe() : isAdmitted ? tier.read(request, "none") : tier.peek(request);
      const execute = (): void => resolve({ kind: "execute", execution: UNRECORDED });
      read.then((value) => {
        // The execution of an observed response has begun.
        if (isObserved) return;
        if (value instanceof StoredText && report !== undefined) {
          // That of the own execution is no hit.
          if (report.outcome !== "loaded") this.#admission.hit(plan.digest, names.key.digest);
          resolve(this.#served(value, report, names));
        } else {
          if (!isAdmitted) this.#admission.passed(plan.digest, names.key.digest);
          execute();
        }
      }, execute);
    });
  }

  #served(text: StoredText, report: ReadReport, { isPrivate, contextPaths }: ResponseNames): Begun {
    const { freshForMs, ageMs } = report.outcome === "bypassed" ? { freshForMs: 0, ageMs: 0 } : report;
    return { kind: "served", response: this.#stored.open(text), freshForMs, ageMs, isPrivate, report, contextPaths };
  }

  #reportObserved({ key, isPrivate }: ResponseNames, observer: Observer | undefined): void {
    const reason = "MODE_OBSERVE";
    this.#parts.channel.publish({ name: "resolver.bypassed", coordinate: RESPONSES, digest: "", reason });
    observer?.onRead(RESPONSES, { outcome: "bypassed", isPrivate, reason }, undefined, key);
  }

  #policyOf(scope: Policy["scope"]): Policy {
    const { maxAgeMs, staleWhileRevalidateMs, staleIfErrorMs } = this.options;
    return {
      maxAgeMs,
      staleWhileRevalidateMs,
      staleIfErrorMs,
      // The load is the execution of a request, so there is none in the background.
      refresh: "FOREGROUND",
      earlyRefreshBeta: 0,
      neverExpires: false,
      negativeMaxAgeMs: maxAgeMs,
      jitterRatio: this.#parts.defaults.jitter ?? 0.1,
      scope,
      // Shared by readers where there is a near cache. Freezing what each of them decodes for itself would cost as much as parsing.
      readOnly: this.#parts.tier.hasNear,
    };
  }

  /** Returns the key of a response. Undefined if a part of it cannot be written. */
  #keyOf(
    { schema, variables, operationName, context }: Operation,
    plan: OperationPlan,
    variant: Variant,
    identity: Identity | undefined,
    isPrivate: boolean,
  ): ResponseNames | undefined {
    const { keys } = this.#parts;
    const given = variables ?? {};
    const coerced = variablesOf(schema, plan.operation, given);
    if (coerced === undefined) return undefined;
    const paths = new Map([...this.options.keyPaths, ...plan.contextPaths].map((path) => [path.text, path]));
    try {
      const contextParts = contextPartsOf(paths.values(), context, keys);
      const parts = JSON.stringify([
        plan.digest,
        operationName ?? plan.operation.name?.value ?? null,
        // What a server shows to everybody who is signed in, it need not show to others.
        identity !== undefined,
        [...paths.keys()],
        contextParts,
        canonicalize(coerced, keys.writers.exact),
      ]);
      const owner = isPrivate ? identity : undefined;
      const key = keys.entry({ kind: "response", coordinate: RESPONSES, identity: owner, parts }, variant);
      return {
        key,
        identity,
        isPrivate,
        contextPaths: [...paths.keys()],
        paths: [...paths.values()],
        contextParts,
        hasCachedFields: plan.coordinates.length > 0,
      };
    } catch {
      return undefined;
    }
  }

  /** Returns the error of a response whose context is no longer the one that its key was made from. */
  #changed({ context }: Operation, names: ResponseNames): ReturnType<typeof contextChanged> | undefined {
    const { identify, keys } = this.#parts;
    if (identityOf(identify, context) !== names.identity) return contextChanged(RESPONSES, "identity");
    const now = contextPartsOf(names.paths, context, keys);
    const changed = names.contextParts.findIndex((part, index) => part !== now[index]);
    return changed < 0 ? undefined : contextChanged(RESPONSES, names.contextPaths[changed] as string);
  }

  #learnedOf({ digest }: OperationPlan): Learned {
    const known = this.#learned.get(digest);
    if (known !== undefined) return known;
    const learned: Learned = { isCacheable: undefined, isPrivate: false };
    this.#learned.set(digest, learned);
    return learned;
  }

  #stateOf(schema: GraphQLSchema): SchemaState {
    const known = this.#schemas.get(schema);
    if (known !== undefined) return known;
    const { keys, variants } = this.#parts;
    const variant = keys.variant({
      kind: "response",
      shape: shapeOf(schema, this.#parts),
      versions: [],
      // Servers with other options share no responses.
      keyTemplate: [JSON.stringify([this.options.maxAgeMs, this.options.extensions, this.#usesPolicies])],
      tagTemplates: [],
    });
    variants.declare(RESPONSES, variant);
    reportStart(schema, this.#parts);
    const state = { planner: new OperationPlanner(schema, this.#parts), variant };
    this.#schemas.set(schema, state);
    return state;
  }
}

/** The key of a response, and what it was made from. */
interface ResponseNames {
  readonly key: Key;
  /** That of the caller, also if the response is PUBLIC. */
  readonly identity: Identity | undefined;
  readonly isPrivate: boolean;
  readonly contextPaths: readonly string[];
  readonly paths: readonly Path[];
  readonly contextParts: readonly string[];
  /** Whether the operation selects cached fields. */
  readonly hasCachedFields: boolean;
}

const contextPartsOf = (paths: Iterable<Path>, context: unknown, keys: CacheParts["keys"]): readonly string[] =>
  [...paths].map((path) => canonicalize(readPath(path, { context }), keys.writers.byText));

/** Returns the digest of everything in a schema that decides about responses. Releases that differ in it share none. */
function shapeOf(schema: GraphQLSchema, { rules }: CacheParts): string {
  const annotated: unknown[] = [];
  for (const type of Object.values(schema.getTypeMap())) {
    const directives = (type.astNode?.directives ?? []).map(print);
    if (directives.length > 0) annotated.push([type.name, directives]);
    if (!isObjectType(type) && !isInterfaceType(type)) continue;
    for (const field of Object.values(type.getFields())) {
      const own = (field.astNode?.directives ?? []).map(print);
      if (own.length > 0) annotated.push([`${type.name}.${field.name}`, own]);
    }
  }
  const policies = [...rules.fields.values()].map(({ coordinate, variant, policy, settings }) => [
    coordinate,
    variant.id,
    policy,
    settings,
  ]);
  return hashOf("sha256", JSON.stringify([printSchema(schema), annotated, policies]), "base64url");
}

/** Returns the observer of an execution whose response is to be stored. */
export function collecting(
  observer: Observer | undefined,
  collector: CollectedParts,
): Observer & { readonly collector: CollectedParts } {
  return {
    collector,
    onRead(coordinate, report, info, key, source) {
      collector.add(coordinate, report, key);
      observer?.onRead(coordinate, report, info, key, source);
    },
    ...(observer?.onShared === undefined ? {} : { onShared: observer.onShared.bind(observer) }),
    onHint: (hint, info) => observer?.onHint?.(hint, info),
    onMiss: (miss) => observer?.onMiss?.(miss),
    onExecution: (execution) => observer?.onExecution?.(execution),
  };
}

/** An execution of which the cache learns nothing. */
const UNRECORDED: ResponseExecution = {
  isPrivate: false,
  end: () => Promise.resolve(undefined),
  abandon: () => undefined,
};

/** An execution of an operation that is not expected to be cacheable. */
class UnstoredExecution implements ResponseExecution {
  readonly isPrivate: boolean;
  readonly #learn: (age: ResponseAge | undefined) => void;

  constructor(isPrivate: boolean, learn: (age: ResponseAge | undefined) => void) {
    this.isPrivate = isPrivate;
    this.#learn = learn;
  }

  async end(
    { errors, data }: ExecutedResponse,
    age: ResponseAge | undefined,
    obstacle?: string,
  ): Promise<StoredResponse | undefined> {
    if (errors === undefined && data != null) this.#learn(obstacle === undefined ? age : undefined);
    return undefined;
  }

  abandon(): void {
    // There is nothing to give up.
  }
}

/** What happens when an execution with a lease has ended. */
interface ExecutionEnds {
  ended(): void;
  /** Whether the operation selects cached fields. */
  readonly expectsReads: boolean;
  /** The paths into the context in the key of the response. */
  readonly contextPaths: readonly string[];
  /** Called if the response is not stored for a reason that will last. */
  unstorable(isPrivate: boolean): void;
  /** Called if the response is stored. */
  stored(): void;
  /** Returns the response that is served in place of an execution that has failed. */
  older(): Promise<StoredResponse | undefined>;
}

/** An execution that is the load of a response: others wait for it. */
class LeasedExecution implements ResponseExecution {
  readonly isPrivate: boolean;
  /** What the load returns. */
  readonly stored: Promise<unknown>;
  readonly parts: CollectedParts;
  readonly contextPaths: readonly string[];
  readonly #control: ResultControl;
  readonly #request: ResponseRead;
  readonly #startedAt: number;
  readonly #options: ResolvedResponses;
  readonly #ends: ExecutionEnds;
  #resolve: (value: unknown) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  #hasEnded = false;

  constructor(
    parts: CollectedParts,
    control: ResultControl,
    request: ResponseRead,
    startedAt: number,
    options: ResolvedResponses,
    ends: ExecutionEnds,
  ) {
    this.parts = parts;
    this.#control = control;
    this.#request = request;
    this.contextPaths = ends.contextPaths;
    this.isPrivate = request.policy.scope === "PRIVATE";
    this.#startedAt = startedAt;
    this.#options = options;
    this.#ends = ends;
    this.stored = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  async end(
    response: ExecutedResponse,
    age: ResponseAge | undefined,
    obstacle?: string,
  ): Promise<StoredResponse | undefined> {
    if (this.#hasEnded) return undefined;
    this.#hasEnded = true;
    this.#ends.ended();
    if (this.#ends.expectsReads && !this.parts.hasReads)
      this.parts.pass("none of its cached fields was read, so that another cache may have answered");
    const [error] = response.errors ?? [];
    if (error !== undefined && this.#options.staleIfErrorMs > 0) return this.#fail(error);
    let stored: unknown = NOT_STORED;
    try {
      stored = this.#resultOf(response, age, obstacle);
    } catch {
      // Its data is not JSON.
      this.#ends.unstorable(false);
      this.#control.skip();
    }
    this.#resolve(stored);
    return undefined;
  }

  abandon(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#ends.ended();
    this.#control.skip();
    this.#resolve(NOT_STORED);
  }

  /** The tier decides whether an error says that the source is in trouble, and whether there is an older response. */
  async #fail(error: unknown): Promise<StoredResponse | undefined> {
    this.#reject((error as { readonly originalError?: unknown }).originalError ?? error);
    return this.#ends.older();
  }

  #resultOf(response: ExecutedResponse, age: ResponseAge | undefined, obstacle: string | undefined): unknown {
    const { data, errors = [] } = response;
    const subjects = this.parts.subjects();
    const isPrivate = age?.isPrivate === true || this.parts.isPrivate;
    const hasOtherScope = isPrivate && this.#request.policy.scope === "PUBLIC";
    // Counted from the beginning of the execution, as the age of an entry is.
    const maxAgeMs = Math.min((age?.maxAge ?? 0) * 1000, this.parts.freshUntilAt - this.#startedAt);
    const hasErrors = errors.length > 0 || data === null || data === undefined;
    // Errors pass, and parts that are stale now are fresh again soon.
    const { refusal } = this.parts;
    const isUnstorable = [age, subjects].includes(undefined) || hasOtherScope || (obstacle ?? refusal) !== undefined;
    if (hasErrors || isUnstorable || maxAgeMs <= 0) {
      if (!hasErrors && isUnstorable) this.#ends.unstorable(hasOtherScope);
      this.#control.skip();
      return NOT_STORED;
    }
    this.#control.set({
      maxAge: maxAgeMs / 1000,
      ...(Number.isFinite(this.parts.staleForMs) ? { staleWhileRevalidate: this.parts.staleForMs / 1000 } : {}),
    });
    const text = storedOf(response, this.#options.extensions);
    this.#ends.stored();
    // Those who share the execution get them with the response, which says nothing of them itself.
    if (this.#control instanceof LoadControl) this.#control.addSubjects(subjects as readonly Subject[]);
    return text;
  }
}

/** Returns what is stored of a response. `extensions`: the names of those that are. Throws if it is not JSON. */
function storedOf({ data, extensions = {} }: ExecutedResponse, names: readonly string[]): StoredText {
  const kept = Object.entries(extensions).filter(([name]) => names.includes(name));
  return StoredResponse.write(data, kept.length > 0 ? Object.fromEntries(kept) : undefined);
}

/** The execution of an operation whose stored response is only compared with this one. */
class ObservedExecution implements ResponseExecution {
  readonly isPrivate: boolean;
  readonly #extensions: readonly string[];
  readonly #response = new Deferred<StoredText>();

  /** `extensions`: the names of those that are stored. */
  constructor(isPrivate: boolean, extensions: readonly string[]) {
    this.isPrivate = isPrivate;
    this.#extensions = extensions;
  }

  /** The response as it would be stored. Rejects if there is none. */
  get response(): Promise<StoredText> {
    return this.#response.promise;
  }

  async end(response: ExecutedResponse): Promise<undefined> {
    const { data, errors = [] } = response;
    try {
      if (errors.length > 0 || data == null) this.abandon();
      else this.#response.resolve(storedOf(response, this.#extensions));
    } catch {
      this.abandon();
    }
  }

  abandon(): void {
    this.#response.reject(new Error("there is no response to compare"));
  }
}

/** The functions of the request of a response. */
interface ResponseCalls {
  load(control: ResultControl): Promise<unknown>;
  changed(): ReturnType<typeof contextChanged> | undefined;
  onRead(report: ReadReport): void;
}

/** The tags of every response: those that its execution adds. */
const TAGS_OF_LOADS: RequestTags = new ResultTags(NO_TAGS, () => []);

/** The read of a response. Its tags are known when the operation has been executed. */
class ResponseRead implements ReadRequest {
  readonly key: Key;
  readonly policy: Policy;
  readonly isForced: boolean;
  readonly tags: RequestTags;
  readonly #calls: ResponseCalls;

  constructor({ key }: ResponseNames, policy: Policy, isForced: boolean, calls: ResponseCalls) {
    this.key = key;
    this.policy = policy;
    this.isForced = isForced;
    this.#calls = calls;
    this.tags = TAGS_OF_LOADS;
  }

  load(_waiters: unknown, control: ResultControl): Promise<unknown> {
    return this.#calls.load(control);
  }

  changed(): ReturnType<typeof contextChanged> | undefined {
    return this.#calls.changed();
  }

  get onRead(): (report: ReadReport) => void {
    return this.#calls.onRead;
  }

  /** The server has begun to work on the request before: there is nothing to hold back. */
  get needsNoSlot(): boolean {
    return true;
  }
}
