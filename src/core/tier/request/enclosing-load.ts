import type { Key } from "../../keys/key.js";
import { Waiters } from "./waiters.js";

/** The load that the current asynchronous context is inside of. */
export interface EnclosingLoad {
  /** The keys of this load, and of those that it is inside of. */
  readonly keys: ReadonlySet<string>;
  /** See `Loads.starts`. */
  readonly start: number;
  readonly waiters: Waiters;
  /** The load around it, if there is one. */
  readonly outer: EnclosingLoad | undefined;
  /** What it has started, such as a timer, can go on afterwards, and is not inside of it any more. */
  readonly hasEnded: boolean;
  /** Whether it is the build of a subtree. No other load waits for one, so that what is read in it can wait as long as a request. */
  readonly isBuild: boolean;
  /** Notes that it has read a PRIVATE value, which `coordinate` names. */
  readPrivate(coordinate: string): void;
  /** Returns whether it is `load`, or inside of it. */
  isWithin(load: EnclosingLoad): boolean;
}

/** One load of one key. */
export class SingleLoad implements EnclosingLoad {
  readonly keys: ReadonlySet<string>;
  readonly start: number;
  readonly waiters: Waiters;
  readonly outer: EnclosingLoad | undefined;
  readonly isBuild: boolean;
  hasEnded = false;
  /** The field or loader of the first PRIVATE value that it has read. Undefined: it has read none. */
  privateCoordinate: string | undefined = undefined;

  constructor(
    { name, kind }: Pick<Key, "name" | "kind">,
    start: number,
    waiters: Waiters,
    outer: EnclosingLoad | undefined,
  ) {
    this.keys = new Set([...(outer?.keys ?? []), name]);
    this.isBuild = kind === "subtree";
    this.start = start;
    this.waiters = waiters;
    this.outer = outer;
  }

  readPrivate(coordinate: string): void {
    this.privateCoordinate ??= coordinate;
    this.outer?.readPrivate(coordinate);
  }

  isWithin(load: EnclosingLoad): boolean {
    return this === load || this.outer?.isWithin(load) === true;
  }
}

/**
 * The loads that one call of a source is made for. Its asynchronous context is that of the first of them, but what it
 * reads, each of them has read.
 */
export class JointLoad implements EnclosingLoad {
  readonly #loads: readonly EnclosingLoad[];
  #keys: ReadonlySet<string> | undefined;
  #waiters: Waiters | undefined;
  readonly outer = undefined;
  readonly isBuild = false;

  constructor(loads: readonly EnclosingLoad[]) {
    this.#loads = loads;
  }

  get keys(): ReadonlySet<string> {
    this.#keys ??= new Set(this.#loads.flatMap(({ keys }) => [...keys]));
    return this.#keys;
  }

  get start(): number {
    return this.#loads.reduce((latest, { start }) => Math.max(latest, start), 0);
  }

  get waiters(): Waiters {
    if (this.#waiters === undefined) {
      this.#waiters = new Waiters();
      for (const { waiters } of this.#loads) this.#waiters.addAll(waiters);
    }
    return this.#waiters;
  }

  get hasEnded(): boolean {
    return this.#loads.every(({ hasEnded }) => hasEnded);
  }

  readPrivate(coordinate: string): void {
    for (const load of this.#loads) load.readPrivate(coordinate);
  }

  isWithin(load: EnclosingLoad): boolean {
    return this === load || this.#loads.some((one) => one.isWithin(load));
  }
}
