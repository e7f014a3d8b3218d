import { type ConformanceSubject, type StoreFeature, storeConformance } from "@graphql-cached/testing";
import type { Store } from "graphql-cached/store";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

/** A store that the suite runs on. */
export interface TestedStore {
  /** Returns the store of a case, the same for all of them if they share a server. */
  make(): ConformanceSubject | Promise<ConformanceSubject>;
  /** The optional features that it lacks, and why. */
  readonly lacks?: Partial<Record<StoreFeature, string>>;
  /** Is called once, before the first case. */
  prepare?(subject: ConformanceSubject): Promise<void>;
}

/** Defines the tests that `store` keeps the rules of every store. */
export function itKeepsTheRules(name: string, { make, lacks = {}, prepare }: TestedStore): void {
  const nth = ++suites;
  describe(name, () => {
    beforeAll(async () => prepare?.(await make()));
    for (const [index, { title, needs, run }] of storeConformance.entries())
      it(title, async ({ skip }) => {
        const reason = needs && lacks[needs];
        if (reason !== undefined) skip(reason);
        await expect(run(await make(), `conformance:${process.pid}:${nth}:${index}`)).resolves.toBeUndefined();
      });
  });
}

let suites = 0;
let subjects = 0;

/** Opens a store under a prefix of its own, since several stores share a server. */
export function subjectOf(store: Store, elapse: (ms: number) => Promise<void>): ConformanceSubject {
  const prefix = `conformance-${process.pid}-${++subjects}`;
  const names = {
    wakeChannel: `${prefix}:wake`,
    reports: `${prefix}:reports`,
    clock: `${prefix}:clock`,
  };
  const woken: ConformanceSubject["woken"] = [];
  const heard: ConformanceSubject["heard"] = [];
  const end = store.open(names, {
    wake: (key, entry, gen) => woken.push({ key, entry, gen }),
    clockChanged: (head) => heard.push(head),
  });
  closing.push(async () => end());
  return { store, woken, heard, elapse };
}

export const closing: (() => Promise<unknown>)[] = [];
afterAll(() => Promise.all(closing.splice(0).map((close) => close())));

/** Returns a function that calls `make` once. */
export function once<T>(make: () => T): () => T {
  let result: T | undefined;
  return () => {
    result ??= make();
    return result;
  };
}
