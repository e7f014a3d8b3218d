import { AsyncLocalStorage } from "node:async_hooks";
import { isObjectPrototype } from "../base/built-in.js";
import { disableStorage } from "../base/clock.js";
import type { Channel } from "../telemetry/channel.js";

/**
 * Reports which context properties the loads of public values read outside of their keys: once per
 * coordinate and property, by name, never by value.
 *
 * The watch replaces the properties of the context by accessors. It does not wrap the context in a
 * Proxy, because a Proxy is a different object: whatever is keyed by the context (a WeakMap of
 * DataLoaders, `===`, #private fields) would stop matching. The asynchronous context identifies the
 * running load, so reads by concurrent code are not reported. Frozen contexts and contexts that are
 * not objects are not watched.
 */
export class ContextWatch {
  readonly #channel: Channel;
  readonly #sharedKeys: readonly string[];
  readonly #watchesLoads: boolean;
  readonly #running = new AsyncLocalStorage<WatchedLoad | undefined>();
  /** Whether anything was ever watched: asking for the running load costs something. */
  #isUsed = false;
  /** The properties of each context that are watched. */
  readonly #watched = new WeakMap<object, Set<PropertyKey>>();
  readonly #reported = new Set<string>();

  constructor(channel: Channel, sharedKeys: readonly string[], watchesLoads: boolean) {
    this.#channel = channel;
    this.#sharedKeys = sharedKeys;
    this.#watchesLoads = watchesLoads;
  }

  /** Runs `load`. Properties of `context` that it reads, now or asynchronously, are reported unless they are in `keyProperties`. */
  run<T>(coordinate: string, keyProperties: readonly string[], context: unknown, load: () => T): T {
    if (!this.#watchesLoads || typeof context !== "object" || context === null) return load();
    this.#watch(context);
    this.#isUsed = true;
    return this.#running.run({ coordinate, keyProperties }, load);
  }

  /** Ends the watch. In Node.js 20 and 22, a used AsyncLocalStorage slows down every promise of the process until it is disabled. */
  close(): void {
    disableStorage(this.#running);
  }

  /** Runs `read` without reporting what it reads. */
  pause<T>(read: () => T): T {
    return this.#isUsed ? this.#running.run(undefined, read) : read();
  }

  /** Watches all properties that a context has now, as far as they can be watched. */
  #watch(context: object): void {
    const onRead = (property: PropertyKey): void => this.#onRead(property);
    const known = this.#watched.get(context);
    const names = known ?? new Set<PropertyKey>();
    this.#watched.set(context, names);
    const inherited = known === undefined && Object.isExtensible(context) ? inheritedNames(context) : [];
    try {
      for (const property of Reflect.ownKeys(context)) {
        if (names.has(property) || isOfLibrary(context, property)) continue;
        names.add(property);
        watchOwn(context, property, onRead);
      }
      for (const property of inherited) {
        names.add(property);
        watchInherited(context, property, onRead);
      }
    } catch {
      // Exotic contexts, such as a Proxy that rejects definitions, stay unwatched.
    }
  }

  #onRead(name: PropertyKey): void {
    const load = this.#running.getStore();
    if (load === undefined) return;
    const property = String(name);
    if (load.keyProperties.includes(property) || this.#sharedKeys.includes(property)) return;
    const { coordinate } = load;
    const report = `${coordinate} ${property}`;
    if (this.#reported.has(report) || this.#reported.size >= MAX_REPORTS) return;
    this.#reported.add(report);
    this.#channel.publish({ name: "context.read", coordinate, digest: "", property });
  }
}

/** A running load of a public value, and the properties of the context that are part of its key. */
interface WatchedLoad {
  readonly coordinate: string;
  readonly keyProperties: readonly string[];
}

/** Bounds the memory of past reports: a context with one property per user would otherwise exhaust it. */
const MAX_REPORTS = 1_000;

type OnRead = (property: PropertyKey) => void;

function watchOwn(context: object, property: PropertyKey, onRead: OnRead): void {
  const own = Object.getOwnPropertyDescriptor(context, property);
  if (own === undefined || !own.configurable) return;
  const { get, set, enumerable = false } = own;
  let { value } = own as { value: unknown };
  const isField = "value" in own;
  define(context, property, {
    enumerable,
    get(this: object) {
      onRead(property);
      return isField ? value : get?.call(this);
    },
    // Assigning to an object that inherits from the context creates its own property, as with a
    // plain field.
    set: isField
      ? own.writable === true
        ? function (this: object, next: unknown) {
            if (this === context) value = next;
            else define(this, property, { value: next, writable: true, enumerable: true });
          }
        : undefined
      : set,
  });
}

/** Watches a member of the context's class. Methods are included, since #private fields are read through them. */
function watchInherited(context: object, property: string, onRead: OnRead): void {
  const prototype = Object.getPrototypeOf(context) as object;
  define(context, property, {
    enumerable: false,
    get(this: object) {
      onRead(property);
      return Reflect.get(prototype, property, this) as unknown;
    },
    set(this: object, next: unknown) {
      const isOwn = this === context && Reflect.deleteProperty(context, property);
      if (!Reflect.set(isOwn ? context : prototype, property, next, this))
        throw new TypeError(`Cannot assign to read only property '${property}' of the context`);
      if (isOwn && !Object.hasOwn(context, property)) watchInherited(context, property, onRead);
    },
  });
}

/** Servers keep state of their own on contexts, under symbols that are not enumerable, and ask all contexts for it. */
const isOfLibrary = (context: object, property: PropertyKey): boolean =>
  typeof property === "symbol" && Object.getOwnPropertyDescriptor(context, property)?.enumerable !== true;

function inheritedNames(context: object): Set<string> {
  const names = new Set<string>();
  let prototype: unknown = Object.getPrototypeOf(context);
  while (typeof prototype === "object" && prototype !== null && !isObjectPrototype(prototype)) {
    for (const name of Object.getOwnPropertyNames(prototype))
      if (name !== "constructor" && !Object.hasOwn(context, name)) names.add(name);
    prototype = Object.getPrototypeOf(prototype);
  }
  return names;
}

function define(
  target: object,
  property: PropertyKey,
  descriptor: Omit<PropertyDescriptor, "get" | "set"> & {
    readonly get?: (this: object) => unknown;
    readonly set?: ((this: object, next: unknown) => void) | undefined;
  },
): void {
  Object.defineProperty(target, property, { ...(descriptor as PropertyDescriptor), configurable: true });
}
