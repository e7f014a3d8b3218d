import { AsyncLocalStorage } from "node:async_hooks";
import { asJob, disableStorage } from "../base/clock.js";
import { type Execution, type ExecutionInfo, executionOf, isOnlyExecution } from "../base/graphql-version.js";
import type { Key, Subject } from "../keys/key.js";
import type { Policy } from "../policy/policy.js";
import type { ResponseHint } from "../store/entry-layout.js";
import type { Reads } from "../tier/read/hit.js";
import type { KnownKey } from "../tier/request/known-key.js";
import type { ReadReport } from "../tier/request/request.js";
import type { InvalidationCount } from "../tier/shared/unconfirmed-invalidations.js";
import { type ExecutionLimits, FieldLoader } from "./field-loader.js";

/**
 * The state of each request: field loader, observer and override. A field loader belongs to one
 * execution rather than to a context: contexts can be shared between requests, and a loader that
 * outlives its request would return values that have been invalidated since.
 */
export class RequestStates {
  /** By signal and owner, or by owner twice. Owners that are shared or live longer have signals. */
  readonly #loaders = new WeakMap<object, WeakMap<object, FieldLoader>>();
  readonly #observers = new WeakMap<object, Observer>();
  readonly #overrides = new WeakMap<object, Override>();
  /** By object: those that count as one request, of which the first is the context. */
  readonly #members = new WeakMap<object, readonly object[]>();
  #hasMembers = false;
  /** Of the responses being executed. Replaced, not changed: observers refer to it. */
  #collectors: ReadonlySet<PartCollector> = new Set();
  /** The response in whose execution anything is called. */
  readonly #executing = new AsyncLocalStorage<PartCollector>();
  readonly #executed = new WeakSet<PartCollector>();
  /** What observed a context before an observer with a collector did. */
  readonly #before = new WeakMap<Observer, Observer>();
  hasOverrides = false;
  hasObservers = false;
  /** Whether a response is executed that is to be stored. */
  isCollecting = false;
  /** The execution that was asked for last, and its variables: most reads of a tick are of one. */
  #last: FieldLoader | undefined;
  #lastOwner: object | undefined;

  constructor(
    private readonly tier: Reads,
    private readonly invalidations: InvalidationCount,
    private readonly limits: ExecutionLimits,
  ) {}

  execution(info: ExecutionInfo, observer?: Observer): FieldLoader {
    if (info.variableValues === this.#lastOwner && isOnlyExecution(info)) return this.#last as FieldLoader;
    const execution = executionOf(info);
    const loader = this.loader(execution, observer);
    if (execution.signal === undefined && execution.owner === info.variableValues) {
      if (this.#last === undefined) asJob(() => this.#forgetLast());
      this.#last = loader;
      this.#lastOwner = execution.owner;
    }
    return loader;
  }

  /** Variables must not outlive their request. */
  #forgetLast(): void {
    this.#last = undefined;
    this.#lastOwner = undefined;
  }

  loader({ owner, signal }: Execution, observer?: Observer): FieldLoader {
    const holder = signal ?? owner;
    let loaders = this.#loaders.get(holder);
    if (loaders === undefined) {
      loaders = new WeakMap();
      this.#loaders.set(holder, loaders);
      // graphql 17 aborts the signal when it has ended, but its objects may live longer.
      if (holder instanceof EventTarget)
        holder.addEventListener("abort", () => this.#loaders.delete(holder), { once: true });
    }
    let loader = loaders.get(owner);
    if (loader === undefined) {
      loader = new FieldLoader(this.tier, this.invalidations, this.limits);
      loaders.set(owner, loader);
      observer?.onExecution?.(loader);
    }
    return loader;
  }

  /** Makes `others` count as the context's request. Returns the first that is of another one. */
  join(context: object, others: readonly object[]): object | undefined {
    const [root] = this.#membersOf(context);
    const taken = others.find((other) => this.contextOf(other) !== other && this.contextOf(other) !== root);
    if (taken !== undefined) return taken;
    const members = [...new Set([context, ...others].flatMap((one) => this.#membersOf(one)))];
    this.#hasMembers = true;
    for (const noted of [this.#observers, this.#overrides] as WeakMap<object, unknown>[]) {
      const [first] = members.filter((one) => noted.has(one));
      if (first !== undefined) for (const member of members) noted.set(member, noted.get(first));
    }
    for (const member of members) this.#members.set(member, members);
    // Not in a frozen one. Another cache may have joined others with it.
    const value = new Map(joinedIn(context)).set(this, members);
    Reflect.defineProperty(context, JOINED, { value, enumerable: true, configurable: true });
    return undefined;
  }

  /** Makes a copy of a context, as Apollo Server does, the context of what was joined with it. */
  #adopt(copy: object): void {
    const joined = joinedIn(copy)?.get(this) as readonly [object, ...object[]] | undefined;
    if (joined === undefined || this.#members.has(copy)) return;
    const [original] = joined;
    const isFirst = this.#members.get(original) === joined;
    // The operations of a batch have a copy each, and what others read belongs to none.
    const members = isFirst ? [copy, ...joined] : [...joined];
    const known = this.contextOf(original);
    for (const member of members) this.#members.set(member, members);
    if (isFirst) return;
    for (const member of members) this.#observers.delete(member);
    for (const one of [known, copy]) if (one !== original) this.#members.set(one, [one]);
  }

  #membersOf(context: object): readonly object[] {
    if (this.#hasMembers) this.#adopt(context);
    return this.#members.get(context) ?? [context];
  }

  /** Returns the context of the request that an object counts as. */
  contextOf<Context>(object: Context): Context {
    return (this.#members.get(object as object)?.[0] ?? object) as Context;
  }

  override(context: object, override: Override): void {
    this.hasOverrides = true;
    for (const member of this.#membersOf(context)) this.#overrides.set(member, override);
  }

  overrideOf(context: unknown): Override | undefined {
    return this.hasOverrides ? this.#overrides.get(context as object) : undefined;
  }

  /** Makes what is read with a context a part of no other request. */
  own(context: unknown): void {
    if (typeof context === "object" && context !== null && !this.#observers.has(context)) this.observe(context, NOBODY);
  }

  observe(context: object, observer: Observer): void {
    this.hasObservers = true;
    // Its reads are noted by another observer from now on.
    this.#observers.get(context)?.collector?.refuse("another request has the same context");
    this.#setObserver(context, observer);
  }

  #setObserver(context: object, observer: Observer | undefined): void {
    for (const member of this.#membersOf(context))
      if (observer === undefined) this.#observers.delete(member);
      else this.#observers.set(member, observer);
  }

  collect(context: object, observer: Observer & { readonly collector: PartCollector }): () => void {
    const known = this.#observers.get(context);
    const before = known?.collector === undefined ? known : this.#before.get(known);
    if (before !== undefined) this.#before.set(observer, before);
    this.observe(context, observer);
    this.#setCollectors([...this.#collectors, observer.collector]);
    return () => {
      this.#setCollectors([...this.#collectors].filter((one) => one !== observer.collector));
      if (this.#observers.get(context) === observer) this.#setObserver(context, before);
    };
  }

  #setCollectors(collectors: readonly PartCollector[]): void {
    if (collectors.length === 0) disableStorage(this.#executing);
    this.#collectors = new Set(collectors);
    this.isCollecting = collectors.length > 0;
  }

  /**
   * Returns the observer of reads with a context. If nobody observes it, they could be a part of
   * any response being executed, as with loaders made before the server copies the context, and
   * count as a part of each.
   */
  observerOf(context: unknown): Observer | undefined {
    if (!this.hasObservers) return undefined;
    const observer = this.observer(context);
    const enclosing = observer?.collector === undefined ? this.#enclosing() : undefined;
    if (enclosing !== undefined) return toEvery(new Set([enclosing]), observer);
    if (observer === NOBODY) return undefined;
    return observer !== undefined || this.#collectors.size === 0 ? observer : toEvery(this.#collectors);
  }

  /** By the context, by who calls, or since a server executes a response itself, unseen. */
  isPartOfResponse(context: object): boolean {
    if (this.#collectors.size === 0) return false;
    const observer = this.observer(context);
    if (observer?.collector !== undefined || this.#enclosing() !== undefined) return true;
    return observer === undefined && [...this.#collectors].some((one) => !this.#executed.has(one));
  }

  /** Runs the execution of a response. What it reads with any context is collected. */
  executeFor<T>(collector: PartCollector, execute: () => T): T {
    this.#executed.add(collector);
    return this.#executing.run(collector, execute);
  }

  #enclosing(): PartCollector | undefined {
    if (this.#collectors.size === 0) return undefined;
    const collector = this.#executing.getStore();
    return collector !== undefined && this.#collectors.has(collector) ? collector : undefined;
  }

  release(context: object): void {
    // The refresh of its response may go on.
    if (this.#observers.get(context)?.collector === undefined) this.#setObserver(context, undefined);
  }

  observer(context: unknown): Observer | undefined {
    return this.#observers.get(context as object);
  }
}

/** Reads nothing: a context can be a Proxy that refuses other names. */
const joinedIn = (context: object): ReadonlyMap<RequestStates, readonly object[]> | undefined =>
  Object.getOwnPropertyDescriptor(context, JOINED)?.value as ReadonlyMap<RequestStates, readonly object[]> | undefined;

/** The objects that count as the request of a context, by cache. Enumerable: copies have it. */
export const JOINED: unique symbol = Symbol("graphql-cached.joined");

export interface Observer {
  /** `info`: undefined for a loader. `key`: undefined if none was made before the bypass. */
  onRead(coordinate: string, served: ReadReport, info: unknown, key?: Key): void;
  /** Called instead of `onRead` for a fresh value without a hint, if only its age matters. */
  onFresh?(freshForMs: number, ageMs: number, isPrivate: boolean): void;
  /** Receives the hint of a load that a field shares although it did not read the value itself. */
  onHint?(hint: ResponseHint, info: unknown): void;
  /** Called for a loader whose values are known without a read: remembered, primed, not cached. */
  onKnown?(isPrivate: boolean, freshForMs?: number): void;
  onExecution?(execution: FieldLoader): void;
  /** What is read is to be stored as a part of a larger entry, such as a response. */
  readonly collector?: PartCollector | undefined;
}

/** Collects all parts of a larger entry: what is invalidated has to reach the entry. */
export interface PartCollector {
  /** The collectors that it stands for: itself, or several. */
  readonly members: ReadonlySet<PartCollector>;
  /** Adds what may belong to another request. */
  addUnattributed(coordinate: string, served: ReadReport, key: Key | undefined): void;
  addPrimed(names: KnownKey | undefined, policy: Policy): void;
  addUncached(coordinate: string, isPrivate: boolean): void;
  /** Of what was read without the cache. */
  addTags(subjects: readonly Subject[]): void;
  /** Keeps the entry from being stored, since not all of its parts are known. */
  refuse(reason: string): void;
}

/** `observer`: that of the context, which is told as well. */
function toEvery(members: ReadonlySet<PartCollector>, observer?: Observer): Observer {
  const each = (tell: (member: PartCollector) => void): void => {
    for (const member of members) tell(member);
  };
  const collector: PartCollector = {
    members,
    addUnattributed: (...read) => each((member) => member.addUnattributed(...read)),
    addPrimed: (names, policy) =>
      each((member) =>
        policy.scope === "PRIVATE"
          ? member.refuse("a PRIVATE loader was primed with a context of no request")
          : member.addPrimed(names, policy),
      ),
    addUncached: (coordinate) =>
      each((member) => member.refuse(`\`${coordinate}\`, which is not cached, was read with a context of no request`)),
    addTags: (subjects) => each((member) => member.addTags(subjects)),
    refuse: (reason) => each((member) => member.refuse(reason)),
  };
  return {
    collector,
    onRead(coordinate, served, info, key) {
      collector.addUnattributed(coordinate, served, key);
      observer?.onRead(coordinate, served, info, key);
    },
    onHint: (...hint) => observer?.onHint?.(...hint),
    onKnown: (...known) => observer?.onKnown?.(...known),
    onExecution: (execution) => observer?.onExecution?.(execution),
  };
}

/** Observes requests that nobody asks about. */
const NOBODY: Observer = { onRead: () => undefined };

/** BYPASS: neither read nor store. REFRESH: load every value now, and store it. */
export type Override = (typeof OVERRIDES)[number];

export const OVERRIDES = ["BYPASS", "REFRESH"] as const;
