import { AsyncLocalStorage } from "node:async_hooks";
import { types } from "node:util";
import { isPlainObject } from "../base/built-in.js";
import { asJob, disableStorage } from "../base/clock.js";
import type { Channel } from "../telemetry/channel.js";
import { unrepeated } from "../telemetry/log-listener.js";
import { collectReads, inheritedNames, isOfLibrary } from "./collected-reads.js";
import type { IdentityCheck } from "./identity-check.js";

/**
 * Reports which context properties the loads of public values read outside of their keys, and which
 * ones any load writes, since a hit writes nothing: once for each, by name, never by value.
 *
 * It replaces properties of the context by accessors. A Proxy would be a different object for
 * whatever is keyed by the context (a WeakMap of DataLoaders, `===`, #private fields). The
 * asynchronous context identifies the running load, so reads by concurrent code are not reported.
 * Frozen contexts and those that are no objects are not watched.
 */
export class ContextWatch {
  readonly #running = new AsyncLocalStorage<RunningLoad | undefined>();
  identities: IdentityCheck | undefined = undefined;
  /** Reads of the cache itself under way: not collected (`#own`), or not seen (`#paused`). */
  #own = 0;
  #paused = 0;
  /** The properties that `identify` was seen to read. */
  readonly identityKeys = new Set<string>();
  readonly #watched = new WeakMap<object, WatchedContext>();
  /** Bounded: a context with one property per user would otherwise exhaust the memory. */
  readonly #isNew = unrepeated();

  /** `isReporting`: whether what loads do is reported, as outside of production. */
  constructor(
    private readonly channel: Channel,
    private readonly sharedKeys: readonly string[],
    readonly isReporting: boolean,
  ) {}

  /** Runs `load`. Reports what it writes, and reads beside `keyProperties`, unless PRIVATE. */
  run<T>({ coordinate, keyProperties = [], isPrivate }: WatchedLoad, context: unknown, load: () => T): T {
    if (!this.isReporting || typeof context !== "object" || context === null) return load();
    const watched = this.#watch(context);
    const running = { coordinate, keyProperties, isPrivate, context, hasEnded: false };
    const loadsBefore = watched.loads++;
    const result = this.#running.run(running, load);
    // Nothing else has run meanwhile. Later, only a load that was alone can have added something.
    this.#noteAdded(context, watched, running);
    const end = (): void => {
      running.hasEnded = true;
      for (const [property, one] of watched.held) {
        if (one.load !== running) continue;
        if (one.isAlone) this.#noteChanged(property, one);
        watched.held.delete(property);
      }
      if (--watched.running === 0 && watched.loads === loadsBefore + 1) this.#noteAdded(context, watched, running);
    };
    watched.running++;
    if (result instanceof Promise) result.then(end, end);
    else end();
    return result;
  }

  /** Reports the properties that a load has added to a context, or deleted, and watches them. */
  #noteAdded(context: object, { names }: WatchedContext, load: WatchedLoad): void {
    try {
      for (const name of Reflect.ownKeys(context))
        if (!names.has(name) && !isOfLibrary(context, name)) this.#report("context.written", name, load);
      for (const name of names) if (!Object.hasOwn(context, name)) this.#report("context.written", name, load);
    } catch {
      // An exotic context.
    }
    this.#watch(context);
  }

  /** In Node.js 20 and 22, an AsyncLocalStorage in use slows down every promise of the process. */
  close(): void {
    disableStorage(this.#running);
  }

  /** Runs `read`, which is synchronous, unseen. */
  pause<T>(read: () => T): T {
    this.#paused++;
    try {
      return read();
    } finally {
      this.#paused--;
    }
  }

  /** Runs `read`, which is synchronous, and collects nothing: it is for keys, not for values. */
  asIdentity<T>(read: () => T): T {
    this.#own++;
    try {
      return read();
    } finally {
      this.#own--;
    }
  }

  /**
   * Collects the properties of a context that anything reads from now on, also in production.
   * Returns what ends that, and returns their names without shared ones. `keyPaths`: those in the
   * key, such as `$context.locale`. See `collectReads`.
   */
  collect(context: object, keyPaths: readonly string[]): () => readonly string[] {
    const paths = keyPaths.map((text) => text.split(".").slice(1));
    const end = this.pause(() => collectReads(context, paths, (object) => this.#watch(object).collections));
    return () => this.notShared(end());
  }

  notShared(names: readonly string[]): readonly string[] {
    return names.filter((name) => !this.sharedKeys.includes(name.split(".")[0] as string));
  }

  /** Whether it only says that there is no identity: `identify` reads it, and it is empty. */
  isNoIdentity(context: object, name: string): boolean {
    if (!this.identityKeys.has(name)) return false;
    const value = this.pause(() => (context as Readonly<Record<string, unknown>>)[name]);
    return value === undefined || value === null || value === "" || value === false;
  }

  #watch(context: object): WatchedContext {
    const known = this.#watched.get(context);
    const inherited = known === undefined && Object.isExtensible(context) ? inheritedNames(context) : [];
    const watched = known ?? new WatchedContext();
    this.#watched.set(context, watched);
    const { names } = watched;
    try {
      for (const name of names) if (!Object.hasOwn(context, name)) names.delete(name);
      for (const property of Reflect.ownKeys(context)) {
        if (names.has(property) || isOfLibrary(context, property)) continue;
        names.add(property);
        watchOwn(context, property, this.#access);
      }
      for (const property of inherited) {
        names.add(property);
        watchInherited(context, property, this.#access);
      }
    } catch {
      // Exotic contexts, such as a Proxy that rejects definitions, stay unwatched.
    }
    return watched;
  }

  readonly #access: Access = {
    read: (context, property, value) => {
      if (this.#paused > 0) return;
      const name = String(property);
      if (this.#own > 0) {
        if (this.identityKeys.size < MAX_IDENTITY_KEYS) this.identityKeys.add(name);
      } else for (const names of this.#watched.get(context)?.collections ?? []) names.add(name);
      const load = this.#running.getStore();
      if (this.isReporting) this.#hold(context, property, value, load);
      if (load === undefined) return;
      if (load.isPrivate) this.identities?.noteRead(load.context, name, load.coordinate);
      else if (load.keyProperties?.includes(name) !== true) this.#report("context.read", property, load);
    },
    written: (property) => {
      const load = this.#paused > 0 ? undefined : this.#running.getStore();
      if (load !== undefined) this.#report("context.written", property, load);
    },
  };

  /**
   * Remembers what a load got, to see whether it has changed by the time that anyone else gets it,
   * in the next promise job (the load has gone on), or when the load ends, if no other load that
   * runs has it.
   */
  #hold(context: object, property: PropertyKey, value: unknown, load: RunningLoad | undefined): void {
    const held = this.#watched.get(context)?.held;
    const before = held?.get(property);
    if (before !== undefined) this.#noteChanged(property, before);
    held?.delete(property);
    if (load === undefined || typeof value !== "object" || value === null) return;
    const isAlone = before === undefined || (before.load === load ? before.isAlone : before.load.hasEnded);
    const one: HeldValue = { load, value, content: contentOf(value), isAlone };
    held?.set(property, one);
    asJob(() => held?.get(property) === one && this.#noteChanged(property, one));
  }

  #noteChanged(property: PropertyKey, { load, value, content }: HeldValue): void {
    const now = contentOf(value);
    if (now.length !== content.length || !now.every((part, at) => Object.is(part, content[at])))
      this.#report("context.written", property, load);
  }

  #report(name: "context.read" | "context.written", key: PropertyKey, { coordinate }: WatchedLoad): void {
    const property = String(key);
    if (this.sharedKeys.includes(property)) return;
    if (this.#isNew(`${name} ${coordinate} ${property}`))
      this.channel.publish({ name, coordinate, digest: "", property });
  }
}

interface WatchedLoad {
  readonly coordinate: string;
  readonly keyProperties?: readonly string[] | undefined;
  readonly isPrivate: boolean;
}

interface RunningLoad extends WatchedLoad {
  readonly context: object;
  hasEnded: boolean;
}

class WatchedContext {
  readonly names = new Set<PropertyKey>();
  /** How many loads have begun, and how many of them have not ended. */
  loads = 0;
  running = 0;
  /** Which load was the last to read a property, as long as it runs. */
  readonly held = new Map<PropertyKey, HeldValue>();
  readonly collections = new Set<Set<string>>();
}

/** `identify` reads few. */
const MAX_IDENTITY_KEYS = 100;

interface Access {
  read(context: object, property: PropertyKey, value: unknown): void;
  written(property: PropertyKey): void;
}

/** What a load got from a property, and its content. `isAlone`: no other running load has it. */
interface HeldValue {
  readonly load: RunningLoad;
  readonly value: unknown;
  readonly content: readonly unknown[];
  readonly isAlone: boolean;
}

/** How much of a value is compared: a context can have all translations of a site. */
const MAX_PARTS = 200;

/** Returns the members of lists, Maps, Sets and plain objects, but not those of classes. */
function contentOf(value: unknown): readonly unknown[] {
  const content = [value];
  const seen = new Set<unknown>();
  for (const part of content) {
    if (typeof part !== "object" || part === null || seen.has(part) || types.isProxy(part)) continue;
    seen.add(part);
    try {
      for (const member of membersOf(part)) if (content.push(member) >= MAX_PARTS) return content;
    } catch {
      // A class of its own that cannot be iterated now.
    }
  }
  return content;
}

function* membersOf(part: object): Iterable<unknown> {
  if (Array.isArray(part)) {
    yield part.length;
    yield* part;
  } else if (types.isMap(part) || types.isSet(part)) {
    yield part.size;
    for (const member of part) yield* types.isMap(part) ? (member as unknown[]) : [member];
  } else if (isPlainObject(part))
    for (const name of Object.keys(part)) yield* [name, Object.getOwnPropertyDescriptor(part, name)?.value];
}

function watchOwn(context: object, property: PropertyKey, { read, written }: Access): void {
  const own = Object.getOwnPropertyDescriptor(context, property);
  if (own === undefined || !own.configurable) return;
  const { get, set, enumerable = false } = own;
  let { value } = own as { value: unknown };
  const isField = "value" in own;
  function setField(this: object, next: unknown): void {
    if (this === context) {
      written(property);
      value = next;
      return;
    }
    // Assigning to an object that inherits from the context creates its own property.
    Object.defineProperty(this, property, { value: next, writable: true, enumerable: true, configurable: true });
  }
  Object.defineProperty(context, property, {
    configurable: true,
    enumerable,
    get(this: object) {
      read(context, property, value);
      return isField ? value : (get?.call(this) as unknown);
    },
    set: isField ? (own.writable === true ? setField : undefined) : set,
  } as PropertyDescriptor);
}

/** Watches a member of a class. Methods too, since #private fields are read through them. */
function watchInherited(context: object, property: PropertyKey, access: Access): void {
  const prototype = Object.getPrototypeOf(context) as object;
  Object.defineProperty(context, property, {
    configurable: true,
    enumerable: false,
    get(this: object) {
      access.read(context, property, undefined);
      return Reflect.get(prototype, property, this) as unknown;
    },
    set(this: object, next: unknown) {
      if (this === context) access.written(property);
      const isOwn = this === context && Reflect.deleteProperty(context, property);
      if (!Reflect.set(isOwn ? context : prototype, property, next, this))
        throw new TypeError(`Cannot assign to read only property '${String(property)}' of the context`);
      if (isOwn && !Object.hasOwn(context, property)) watchInherited(context, property, access);
    },
  });
}
