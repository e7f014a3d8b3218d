import { AsyncLocalStorage } from "node:async_hooks";
import type { Channel } from "../telemetry/channel.js";

/** A load of a public value, and the properties of the context that its key knows of. */
interface WatchedLoad {
  readonly coordinate: string;
  readonly known: readonly string[];
}

/** So many reads are told of at most: a context with a property for each user would fill the memory. */
const MAX_TOLD = 1_000;

/**
 * Tells which properties of a request's context the loads of public values read outside of their keys: once for each coordinate and property, its name
 * and never its value. For development.
 *
 * The context itself is watched, by accessors in the places of its properties, and not a Proxy of it: a Proxy is another object, so whatever is kept
 * by context (a WeakMap of DataLoaders, `===`, a class with #private fields) would be another's too. Which load is running is known from the
 * asynchronous context, so what runs beside it is not told of. A frozen context, or one that is no object, is not watched.
 */
export class ContextWatch {
  readonly #channel: Channel;
  readonly #harmless: readonly string[];
  readonly #running = new AsyncLocalStorage<WatchedLoad>();
  readonly #watched = new WeakSet<object>();
  readonly #told = new Set<string>();

  constructor(channel: Channel, harmless: readonly string[]) {
    this.#channel = channel;
    this.#harmless = harmless;
  }

  /** Runs `load`; what it reads of `context`, also later on, is told of unless it is `known`. Answers and throws what `load` does. */
  run<T>(coordinate: string, known: readonly string[], context: unknown, load: () => T): T {
    if (typeof context !== "object" || context === null) return load();
    if (!this.#watched.has(context)) {
      this.#watched.add(context);
      this.#watch(context);
    }
    return this.#running.run({ coordinate, known }, load);
  }

  #watch(context: object): void {
    const note = (property: string): void => this.#note(property);
    try {
      for (const property of Object.getOwnPropertyNames(context)) watchOwn(context, property, note);
      if (!Object.isExtensible(context)) return;
      for (const property of inheritedNames(context)) watchInherited(context, property, note);
    } catch {
      // A context that does not let itself be watched is not.
    }
  }

  #note(property: string): void {
    const load = this.#running.getStore();
    if (load === undefined || load.known.includes(property) || this.#harmless.includes(property)) return;
    const { coordinate } = load;
    const about = `${coordinate} ${property}`;
    if (this.#told.has(about) || this.#told.size >= MAX_TOLD) return;
    this.#told.add(about);
    this.#channel.publish({ name: "context.read", coordinate, digest: "", property });
  }
}

type Note = (property: string) => void;

function watchOwn(context: object, property: string, note: Note): void {
  const own = Object.getOwnPropertyDescriptor(context, property);
  if (own === undefined || !own.configurable) return;
  const { get, set, enumerable = false } = own;
  let { value } = own as { value: unknown };
  const isField = "value" in own;
  define(context, property, {
    enumerable,
    get(this: object) {
      note(property);
      return isField ? value : get?.call(this);
    },
    // An object that inherits from the context gets a property of its own, as it would from a plain one.
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

/** What a class gives to its instances, methods included: its #private fields are read through them. */
function watchInherited(context: object, property: string, note: Note): void {
  const prototype = Object.getPrototypeOf(context) as object;
  define(context, property, {
    enumerable: false,
    get(this: object) {
      note(property);
      return Reflect.get(prototype, property, this) as unknown;
    },
    set(this: object, next: unknown) {
      const isOwn = this === context && Reflect.deleteProperty(context, property);
      if (!Reflect.set(isOwn ? context : prototype, property, next, this)) throw new TypeError("it is read-only");
      if (isOwn && !Object.hasOwn(context, property)) watchInherited(context, property, note);
    },
  });
}

function inheritedNames(context: object): Set<string> {
  const names = new Set<string>();
  let prototype: unknown = Object.getPrototypeOf(context);
  while (typeof prototype === "object" && prototype !== null && prototype !== Object.prototype) {
    for (const name of Object.getOwnPropertyNames(prototype))
      if (name !== "constructor" && !Object.hasOwn(context, name)) names.add(name);
    prototype = Object.getPrototypeOf(prototype);
  }
  return names;
}

interface Property {
  readonly enumerable: boolean;
  readonly value?: unknown;
  readonly writable?: boolean;
  readonly get?: (this: object) => unknown;
  readonly set?: ((this: object, next: unknown) => void) | undefined;
}

function define(at: object, property: string, descriptor: Property): void {
  Object.defineProperty(at, property, { ...(descriptor as PropertyDescriptor), configurable: true });
}
