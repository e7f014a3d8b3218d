import { CachedError } from "../base/errors.js";
import { groupBy } from "./group-by.js";
import type { Store } from "./store.js";
import { INCOMPLETE, promised, type StoreCalls } from "./store-calls.js";

/**
 * Runs an operation on items of any node: nodes concurrently, the items of one node in batches of
 * bounded size, one after the other, each with a time budget of its own. Once a batch has failed, no
 * further ones are sent to its node: the budgets of a store that is away do not add up. Returns the
 * results in the order of `items`. Without `onFailure`, rejects with the first error after all nodes
 * have ended.
 */
export async function inBatches<Item, Result>(
  calls: StoreCalls,
  nodeOf: Store["nodeOf"],
  operation: NodeOperation<Item, Result>,
): Promise<readonly Result[]> {
  const { items, nameOf } = operation;
  if (nodeOf === undefined) return inBatchesTo("", calls, operation, items);
  const byNode = groupBy(items, (item) => nodeOf(nameOf(item)));
  const results = new Array<Result>(items.length);
  const ended = await Promise.allSettled(
    [...byNode].map(async ([node, indexes]) => {
      const part = indexes.map((index) => items[index] as Item);
      const found = await inBatchesTo(node, calls, operation, part);
      for (const [at, result] of found.entries()) results[indexes[at] as number] = result;
    }),
  );
  const failed = ended.find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason as Error;
  return results;
}

/** Runs an operation on the items of one node. */
async function inBatchesTo<Item, Result>(
  node: string,
  calls: StoreCalls,
  operation: NodeOperation<Item, Result>,
  items: readonly Item[],
): Promise<readonly Result[]> {
  const { run, onFailure, onLate, continuesAfterErrors } = operation;
  const budgets = operation.budgets ?? budgetsOf(items.length);
  const results: Result[] = [];
  let firstError: unknown;
  for (let from = 0, to = 0; from < items.length; from = to) {
    to = endOfBatch(node, operation, items, from);
    const batch = to - from === items.length ? items : items.slice(from, to);
    let running: Promise<readonly Result[]> | undefined;
    const start = async (): Promise<readonly Result[]> => {
      running = promised(run(batch, node));
      const found = await running;
      if (found?.length !== batch.length) throw INCOMPLETE;
      return found;
    };
    try {
      const found = await calls.run(node, operation.operation, start, {
        budgets,
        nameCount: items.length - from,
        onTimeout: () => operation.onTimeout?.(node, batch.length),
      });
      for (const result of found) results.push(result);
    } catch (error) {
      if (running !== undefined) onLate?.(running, batch);
      if (onFailure !== undefined) return [...results, ...items.slice(from).map(() => onFailure(error))];
      firstError ??= error;
      if (continuesAfterErrors !== true || !isReply(error)) break;
    }
  }
  if (firstError !== undefined) throw firstError as Error;
  return results;
}

/** An operation on items that are spread over the nodes of a store. */
export interface NodeOperation<Item, Result> {
  readonly operation: string;
  readonly items: readonly Item[];
  readonly nameOf: (item: Item) => string;
  /** Calls the store for some items of one node. */
  readonly run: (part: readonly Item[], node: string) => Promise<readonly Result[]>;
  /** Returns the result of an item whose node has failed. Undefined: the operation rejects. */
  readonly onFailure?: (error: unknown) => Result;
  /** Called with a batch that exceeded its budget and may still succeed. */
  readonly onLate?: (running: Promise<readonly Result[]>, part: readonly Item[]) => void;
  /** Called with the number of items of a batch that exceeded its budget. */
  readonly onTimeout?: (node: string, count: number) => void;
  /** How many time budgets a batch may take. Default: depends on the number of items of the node. */
  readonly budgets?: number;
  readonly maxItems?: number;
  /** Returns how large an item of a node is, or is expected to be. */
  readonly bytesOf?: (item: Item, node: string) => number;
  /** Whether an error that the store returns for one batch does not prevent the next ones. */
  readonly continuesAfterErrors?: boolean;
}

/**
 * Each further 100 keys of one node and tick give their batches one more time budget, up to five.
 * Slow is not away: if such a batch fails, all its keys are loaded without a lease.
 */
export const KEYS_PER_BUDGET = 100;
const MAX_BUDGETS = 5;

/**
 * A batch is one call of the store for one node. It has a bounded size, so that a time budget suits
 * batches of any tick, and neither a server nor this process is blocked for long. This bound is that of operations
 * which a server runs as scripts, or as a read and a write for each key.
 */
const KEYS_PER_BATCH = 500;
/** A batch ends before the value with which it would exceed this size. */
export const BYTES_PER_BATCH = 1024 * 1024;

/** Returns the number of time budgets for a batch to a node that is asked for `nameCount` names. */
export const budgetsOf = (nameCount: number): number =>
  Math.max(1, Math.min(Math.ceil(nameCount / KEYS_PER_BUDGET), MAX_BUDGETS));

/** Returns the position after the last item of the batch that begins with `items[from]`. */
function endOfBatch<Item, Result>(
  node: string,
  { bytesOf, maxItems = KEYS_PER_BATCH }: NodeOperation<Item, Result>,
  items: readonly Item[],
  from: number,
): number {
  const end = Math.min(from + maxItems, items.length);
  if (bytesOf === undefined) return end;
  let bytes = 0;
  for (let at = from; at < end; at++) {
    bytes += bytesOf(items[at] as Item, node);
    if (bytes > BYTES_PER_BATCH && at > from) return at;
  }
  return end;
}

/** Returns whether the store itself reported the failure, rather than not replying in time. */
const isReply = (error: unknown): boolean =>
  error instanceof CachedError && error.cause !== undefined && !(error.cause instanceof CachedError);
