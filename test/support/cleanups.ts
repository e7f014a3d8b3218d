/** What the tests of a file have opened, closed by `validator.ts` after each test, in this order. */
export const cleanups: (() => unknown)[] = [];
