import { types } from "node:util";

/** A promise that is settled from outside: `Promise.withResolvers`, which Node.js 20 lacks. */
export class Deferred<T> {
  readonly promise: Promise<T>;
  resolve!: (value: T | PromiseLike<T>) => void;
  reject!: (error: unknown) => void;

  constructor() {
    this.promise = new Promise<T>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }
}

/**
 * Returns a promise in place of what is only promise-like, such as a query that is sent when `then`
 * is called: it is called once, and others can wait for the promise as well. So is a promise of
 * another realm, such as those of Node.js in a test of Jest.
 */
export function asPromise(value: unknown): unknown {
  if (typeof value !== "object" || value === null || value instanceof Promise) return value;
  return typeof (value as { readonly then?: unknown }).then === "function"
    ? new Promise((resolve) => resolve(value))
    : value;
}

/** Has `ask` answer at once: calls `report` once if it returns a promise, which is too late. */
export function synchronous<Args extends readonly unknown[], Answer>(
  ask: ((...args: Args) => Answer) | undefined,
  report: () => void,
): ((...args: Args) => Answer) | undefined {
  let isReported = false;
  return (
    ask &&
    ((...args) => {
      const answer = ask(...args);
      if (types.isPromise(answer)) {
        ignoreRejection(answer);
        if (!isReported) report();
        isReported = true;
      }
      return answer;
    })
  );
}

/** Returns what a function of the user has returned at once. Throws for a promise. */
export function notPromise<Value>(value: Value, fail: () => Error): Value {
  if (!types.isPromise(value)) return value;
  ignoreRejection(value);
  throw fail();
}

export const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

/** Keeps the rejection of a promise that nobody waits for from ending the process. */
export function ignoreRejection(value: unknown, report: (error: unknown) => void = () => undefined): void {
  if (types.isPromise(value)) value.catch(report);
}
