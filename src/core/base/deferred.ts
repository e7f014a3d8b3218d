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

/** Keeps the rejection of a promise that nobody waits for from ending the process. */
export function ignoreRejection(value: unknown, report: (error: unknown) => void = () => undefined): void {
  if (types.isPromise(value)) value.catch(report);
}
