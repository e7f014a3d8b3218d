import type { Store, StoreListener, StoreNames } from "graphql-cached/store";
import { type Shop, Source } from "../../support/shop.js";
import type { World } from "../../support/world.js";

/** A store, the keys that are read of it, and a promise that stores wait for. Without messages of invalidations unless it is told. */
export function watch(store: Store, isTold = false) {
  const reads: (readonly string[])[] = [];
  const hold = { stores: undefined as Promise<void> | undefined };
  const watched = new Proxy(store, {
    get(target, property) {
      if (property === "open" && !isTold)
        return (names: StoreNames, { wake }: StoreListener) => target.open(names, { wake });
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        if (property === "read") reads.push(args[0] as readonly string[]);
        const go = (): unknown => value.apply(target, args) as unknown;
        return property === "storeValues" && hold.stores !== undefined ? hold.stores.then(go) : go();
      };
    },
  });
  return { store: watched, reads, hold };
}

/** What each process reads in `readAll`: a field with a tag of its arguments, one with a tag of its result, a loader and a function. */
const ALL = ["number", "found", "Loader", "Call"];
export const all = (version: number): number[] => ALL.map(() => version);

/** A process on a watched store. */
export interface Watched extends Shop {
  readonly reads: (readonly string[])[];
  readonly hold: { stores: Promise<void> | undefined };
  readAll(): Promise<number[]>;
  /** Reads all, of which memory has answered if entries were not read. */
  isInMemory(): Promise<boolean>;
  /** Resolves when all is in memory. */
  warm(): Promise<void>;
}

/** Processes on one store over one source. */
export function fleetOn(world: World, { isTold = false } = {}) {
  const source = new Source();
  const start = (options: { store?: Store; [option: string]: unknown } = {}): Watched => {
    const { store, reads, hold } = watch(options.store ?? world.store(), isTold);
    const shop = source.start(world, { ...options, store });
    const readAll = () => Promise.all(ALL.map((what) => shop.read(what)));
    const isInMemory = async (): Promise<boolean> => {
      reads.length = 0;
      await readAll();
      return reads.flat().length === 0;
    };
    const warm = async (): Promise<void> => {
      for (let nth = 0; nth < 2; nth++) {
        await readAll();
        await shop.drain();
      }
      if (!(await isInMemory())) throw new Error("expected the values in memory");
    };
    return { ...shop, reads, hold, readAll, isInMemory, warm };
  };
  return { source, start };
}
