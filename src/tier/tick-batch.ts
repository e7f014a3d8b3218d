import { AsyncResource } from "node:async_hooks";
import { afterJobs, type Clock } from "../clock.js";
import { Deferred } from "../deferred.js";
import { NOTHING } from "../nothing.js";
import { type LongTick, PER_TURN, Turns } from "./long-tick.js";
import type { WorkUnderWay } from "./work-under-way.js";

/**
 * What comes of an item, if that is not known yet. It is not a promise: to resolve the promise of the caller with another one
 * takes two more promise jobs, and three more objects that live as long as the wait.
 */
export abstract class Later {
  /** Says to whom to hand the answer, in which asynchronous context. Called once, before the answer is known. */
  abstract handTo(resolve: (answer: unknown) => void, context: AsyncResource): void;
}

/** Returns a promise of an answer that may have to be waited for. */
export function promiseOf(answer: unknown): Promise<unknown> {
  return new Promise((resolve) => {
    if (answer instanceof Later) answer.handTo(resolve, newContext());
    else resolve(answer);
  });
}

const newContext = (): AsyncResource => new AsyncResource("graphql-cached.wait");

/** Successive callers of one owner, which continue together. A class: see `EntryReading`. */
class Group {
  readonly owner: object;
  readonly turn: Promise<unknown>;
  /** The position of the item of the first caller. */
  readonly first: number;
  /** The position after that of the last one. */
  end: number;

  constructor(owner: object, turn: Promise<unknown>, first: number) {
    this.owner = owner;
    this.turn = turn;
    this.first = first;
    this.end = first + 1;
  }
}

type Resolve = (used: unknown) => void;

/** What was added in the current tick, and what comes of it. A class: see `EntryReading`. */
class Pending<Item, Result> {
  readonly items = NOTHING.slice() as Item[];
  /** Those of the promises of the callers of `addFor`, by the positions of their items. Undefined for all other items. */
  readonly resolvers: (Resolve | undefined)[] = NOTHING.slice();
  /** The positions of the items by id. Undefined if they have none. */
  positions: Map<string, number> | undefined = undefined;
  readonly outcome = new Deferred<readonly Result[]>();
  /** What hands the results to the callers after the first `PER_TURN`. Undefined: all of them continue in one turn of the event loop. */
  turns: Turns<readonly Result[]> | undefined = undefined;
  /** The last group of callers. */
  group: Group | undefined = undefined;
  /** Whether not all items are of one owner. */
  isMixed = false;
}

/**
 * Collects the items added in one tick of this process and runs them in one call at the end of the
 * tick. Items with the same `idOf` are run once. An item that is added while a call is running
 * belongs to the next one, so its result is never older than its request.
 */
export class TickBatch<Item, Result> {
  readonly #clock: Pick<Clock, "afterTick">;
  readonly #run: (items: readonly Item[], haveOneOwner: boolean) => Promise<readonly Result[]>;
  readonly #idOf: ((item: Item) => string) | undefined;
  readonly #longTick: LongTick | undefined;
  readonly #otherWork: Pick<WorkUnderWay, "isEmpty"> | undefined;
  #pending: Pending<Item, Result> | undefined;
  /** How many calls are running. */
  #running = 0;
  /** Whether several callers have lately asked at about the same time: in one tick, or while a call was running. */
  #isShared = false;
  /** Called by the promise of each caller. One function for all of them. */
  readonly #addResolver = (resolve: Resolve): void => {
    this.#pending?.resolvers.push(resolve);
  };

  /**
   * `run` returns results in the order and length of its items; if it rejects, all its items do. Both lists belong to the
   * batch afterwards, which replaces by undefined what callers of `addFor` have used. `haveOneOwner`: all items were added
   * by `addFor` for the same owner. `clock` says when a tick ends. With `longTick`, thousands of callers, whose items have no
   * ids, continue in several turns of the event loop, which make one long tick. Otherwise all of them do in one turn.
   * With `otherWork`, a process that serves one caller after the other, and has no such work, does not wait for the end of the
   * turn, only for the promise jobs: nobody else is expected to add anything.
   */
  constructor(
    clock: Pick<Clock, "afterTick">,
    run: (items: readonly Item[], haveOneOwner: boolean) => Promise<readonly Result[]>,
    idOf?: (item: Item) => string,
    longTick?: LongTick,
    otherWork?: Pick<WorkUnderWay, "isEmpty">,
  ) {
    this.#clock = clock;
    this.#run = run;
    this.#idOf = idOf;
    this.#longTick = longTick;
    this.#otherWork = otherWork;
  }

  add(item: Item): Promise<Result> {
    const pending = this.#ofTick();
    const position = this.#place(item, pending);
    return this.#resultsFor(position, pending).then((all) => all[position] as Result);
  }

  /**
   * Adds several items. Returns one promise of all their results, in the same order: a read has
   * thousands of keys, and a list of a thousand members as many tags.
   */
  async addAll(items: readonly Item[]): Promise<readonly Result[]> {
    const pending = this.#ofTick();
    const positions = items.map((item) => this.#place(item, pending));
    const all = await pending.outcome.promise;
    return positions.map((position) => all[position] as Result);
  }

  /**
   * Adds an item, which has no id, for `owner`. Returns a promise of what `use` makes of its result, a value, a promise or a
   * `Later`. It is called in the asynchronous context of the first of the successive calls of one owner. They continue
   * together: a promise job for each of hundreds of items would cost as much as what is done with them.
   */
  addFor(owner: object, item: Item, use: (item: Item, result: Result) => unknown): Promise<unknown> {
    const pending = this.#pending ?? this.#ofTick();
    const position = pending.items.push(item) - 1;
    const turn = position < PER_TURN ? pending.outcome.promise : this.#resultsFor(position, pending);
    const { group } = pending;
    if (group?.owner === owner && group.turn === turn && group.end === position) group.end++;
    else beginGroup(pending, owner, turn, position, use);
    return new Promise(this.#addResolver);
  }

  #ofTick(): Pending<Item, Result> {
    if (this.#pending !== undefined) return this.#pending;
    if (this.#running > 0) this.#isShared = true;
    if (this.#isShared || this.#otherWork?.isEmpty !== true) this.#clock.afterTick(this.#flush);
    else afterJobs(this.#flush);
    this.#pending = new Pending();
    return this.#pending;
  }

  /** Returns the results for the caller who has added the item at `position`, in the turn in which that one continues. */
  #resultsFor(position: number, pending: Pending<Item, Result>): Promise<readonly Result[]> {
    if (position < PER_TURN || this.#longTick === undefined) return pending.outcome.promise;
    pending.turns ??= new Turns(this.#longTick.clock, pending.outcome.promise);
    return pending.turns.of(position);
  }

  /** Returns the position of an item, which is added unless the same one has been. */
  #place(item: Item, pending: Pending<Item, Result>): number {
    if (this.#idOf !== undefined) {
      const id = this.#idOf(item);
      pending.positions ??= new Map();
      const same = pending.positions.get(id);
      if (same !== undefined) return same;
      pending.positions.set(id, pending.items.length);
    }
    pending.isMixed = true;
    pending.resolvers.push(undefined);
    return pending.items.push(item) - 1;
  }

  readonly #flush = (): void => {
    const { items, isMixed, turns, outcome } = this.#pending as Pending<Item, Result>;
    this.#pending = undefined;
    this.#isShared = isMixed || this.#running > 0;
    this.#running++;
    this.#run(items, !isMixed).then(
      (results) => {
        this.#running--;
        if (turns?.last !== undefined) this.#longTick?.lengthen(turns.last);
        outcome.resolve(results);
      },
      (error: unknown) => {
        this.#running--;
        outcome.reject(error);
      },
    );
  };
}

/** Begins a group, whose callers continue with what `use` makes of their results. */
function beginGroup<Item, Result>(
  pending: Pending<Item, Result>,
  owner: object,
  turn: Promise<readonly Result[]>,
  first: number,
  use: (item: Item, result: Result) => unknown,
): void {
  const group = new Group(owner, turn, first);
  if (pending.group !== undefined && pending.group.owner !== owner) pending.isMixed = true;
  pending.group = group;
  const { resolvers } = pending;
  const items: (Item | undefined)[] = pending.items;
  turn.then(
    (all) => {
      let context: AsyncResource | undefined;
      const results = all as (Result | undefined)[];
      for (let position = first; position < group.end; position++) {
        const resolve = resolvers[position] as Resolve;
        const item = items[position] as Item;
        const result = results[position] as Result;
        // What was used is not kept until the last of thousands of callers has its turn.
        items[position] = undefined;
        results[position] = undefined;
        resolvers[position] = undefined;
        try {
          const used = use(item, result);
          if (used instanceof Later) {
            context ??= newContext();
            used.handTo(resolve, context);
          } else resolve(used);
        } catch (error) {
          resolve(Promise.reject(error as Error));
        }
      }
    },
    (error: unknown) => {
      for (let position = first; position < group.end; position++)
        (resolvers[position] as Resolve)(Promise.reject(error as Error));
    },
  );
}

/** For callers that all continue in one pass over the microtasks, which this one comes after. */
const AFTER_PASS: Pick<Clock, "afterTick"> = { afterTick: queueMicrotask };

/**
 * Batches of names, one for each group, for callers that continue one after the other when a batch of
 * reads or loads has ended. Each batch is run in one call, every name once. It does not wait for the end
 * of the tick, which would delay the stores of what was loaded.
 */
export class NameBatch<Group, Result> {
  readonly #run: (group: Group, names: readonly string[]) => Promise<readonly Result[]>;
  /** The batches that wait to be run. */
  readonly #batches = new Map<Group, TickBatch<string, Result>>();

  /**
   * `run` returns results in the order and length of its names; if it rejects, all callers of its
   * group do.
   */
  constructor(run: (group: Group, names: readonly string[]) => Promise<readonly Result[]>) {
    this.#run = run;
  }

  /** Returns the results in the order and length of `names`. */
  add(group: Group, names: readonly string[]): Promise<readonly Result[]> {
    return this.#batchOf(group).addAll(names);
  }

  #batchOf(group: Group): TickBatch<string, Result> {
    const existing = this.#batches.get(group);
    if (existing !== undefined) return existing;
    const run = (names: readonly string[]): Promise<readonly Result[]> => {
      this.#batches.delete(group);
      return this.#run(group, names);
    };
    const batch = new TickBatch(AFTER_PASS, run, (name: string) => name);
    this.#batches.set(group, batch);
    return batch;
  }
}
