/** A promise that is settled from outside. A class: see `EntryReading`. */
export class Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T | PromiseLike<T>) => void;
  readonly reject: (error: unknown) => void;

  constructor(promise: Promise<T>, resolve: Deferred<T>["resolve"], reject: Deferred<T>["reject"]) {
    this.promise = promise;
    this.resolve = resolve;
    this.reject = reject;
  }
}

const doNothing = (): void => undefined;

/** What `Promise.withResolvers`, which Node.js 20 lacks, returns. */
export function deferred<T>(): Deferred<T> {
  let resolve: Deferred<T>["resolve"] = doNothing;
  let reject: Deferred<T>["reject"] = doNothing;
  const promise = new Promise<T>((resolveIt, rejectIt) => {
    resolve = resolveIt;
    reject = rejectIt;
  });
  return new Deferred(promise, resolve, reject);
}

/** Keeps the rejection of a promise that nobody waits for from ending the process. */
export function ignoreRejection(value: unknown): void {
  if (value instanceof Promise) value.catch(() => undefined);
}
