import { describe, expect, it } from "vitest";
import { Admission } from "../../../src/core/responses/admission.js";

const open = (maxOperations = 1_000): Admission => new Admission({ minHits: 1, maxOperations });

/** Asks for a key `times` times while each response is invalidated before the next request. Returns which misses were stored. */
function neverHit(admission: Admission, key: string, times: number): boolean[] {
  return Array.from({ length: times }, () => {
    const isStored = !admission.passes(admission.of("operation"), key);
    if (isStored) admission.stored(admission.of("operation"), key, 60_000);
    return isStored;
  });
}

const countOf = (stored: readonly boolean[]): number => stored.filter(Boolean).length;

describe("the admission of responses", () => {
  it("stores the first response of a key, so that others can wait for it", () => {
    const admission = open();
    expect(admission.passes(admission.of("operation"), "a")).toBe(false);
  });

  it("stores every response of a key that was a hit since the last", () => {
    const admission = open();
    for (let time = 0; time < 50; time++) {
      expect(admission.passes(admission.of("operation"), "a")).toBe(false);
      admission.stored(admission.of("operation"), "a", 60_000);
      admission.hit(admission.of("operation"), "a");
    }
  });

  it("waits twice as long each time for a key whose responses are invalidated before they are hits, up to 16 requests", () => {
    const stored = neverHit(open(), "a", 200);
    const waits = stored
      .map(String)
      .join(" ")
      .split("true")
      .slice(2)
      .map((part) => part.split("false").length - 1);
    expect(waits.slice(0, 7)).toEqual([1, 2, 4, 8, 16, 16, 16]);
  });

  it("stores again at once after a hit", () => {
    const admission = open();
    neverHit(admission, "a", 40);
    while (admission.passes(admission.of("operation"), "a"));
    admission.stored(admission.of("operation"), "a", 60_000);
    admission.hit(admission.of("operation"), "a");
    while (admission.passes(admission.of("operation"), "a"));
    admission.stored(admission.of("operation"), "a", 60_000);
    expect(admission.passes(admission.of("operation"), "a")).toBe(false);
  });

  it("lets new keys of an operation wait for a second request once most of its keys are asked for only once", () => {
    const admission = open();
    const stored = Array.from({ length: 200 }, (_, nth) => neverHit(admission, `key ${nth}`, 1)).flat();
    expect(countOf(stored.slice(0, 16))).toBe(16);
    expect(countOf(stored.slice(16))).toBe(0);
    expect(countOf(neverHit(admission, "asked twice", 2))).toBe(1);
    expect(admission.passes(admission.of("another operation"), "b")).toBe(false);
  });

  it("knows an operation once it is asked for again", () => {
    const admission = open();
    expect(admission.isKnown(admission.of("new"))).toBe(false);
    expect(admission.isKnown(admission.of("new"))).toBe(true);
    expect(admission.isKnown(admission.of("another"))).toBe(false);
  });

  it("stores responses of at most so many operations, until those of another are over", () => {
    const admission = open(2);
    admission.stored(admission.of("operation"), "a", 60_000);
    admission.stored(admission.of("another operation"), "b", 30_000);
    expect(admission.hasRoom(admission.of("third"), 29_999)).toBe(false);
    expect(admission.hasRoom(admission.of("another operation"), 29_999)).toBe(true);
    expect(admission.hasRoom(admission.of("third"), 30_000)).toBe(true);
  });
});
