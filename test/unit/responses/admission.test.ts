import { describe, expect, it } from "vitest";
import { Admission } from "../../../src/core/responses/admission.js";

/** Asks for a key `times` times while each response is invalidated before the next request. Returns which misses were stored. */
function neverHit(admission: Admission, key: string, times: number): boolean[] {
  return Array.from({ length: times }, () => {
    const isStored = admission.admits("operation", key);
    if (isStored) admission.stored("operation", key);
    else admission.passed("operation", key);
    return isStored;
  });
}

const countOf = (stored: readonly boolean[]): number => stored.filter(Boolean).length;

describe("the admission of responses", () => {
  it("stores the first response of a key, so that others can wait for it", () => {
    expect(new Admission(1).admits("operation", "a")).toBe(true);
  });

  it("stores every response of a key that was a hit since the last", () => {
    const admission = new Admission(1);
    for (let time = 0; time < 50; time++) {
      expect(admission.admits("operation", "a")).toBe(true);
      admission.stored("operation", "a");
      admission.hit("operation", "a");
    }
  });

  it("waits twice as long each time for a key whose responses are invalidated before they are hits, up to 16 requests", () => {
    const stored = neverHit(new Admission(1), "a", 200);
    const waits = stored
      .map(String)
      .join(" ")
      .split("true")
      .slice(2)
      .map((part) => part.split("false").length - 1);
    expect(waits.slice(0, 7)).toEqual([1, 2, 4, 8, 16, 16, 16]);
  });

  it("stores again at once after a hit", () => {
    const admission = new Admission(1);
    neverHit(admission, "a", 40);
    while (!admission.admits("operation", "a")) admission.passed("operation", "a");
    admission.stored("operation", "a");
    admission.hit("operation", "a");
    while (!admission.admits("operation", "a")) admission.passed("operation", "a");
    admission.stored("operation", "a");
    expect(admission.admits("operation", "a")).toBe(true);
  });

  it("lets new keys of an operation wait for a second request once most of its keys are asked for only once", () => {
    const admission = new Admission(1);
    const stored = Array.from({ length: 200 }, (_, nth) => neverHit(admission, `key ${nth}`, 1)).flat();
    expect(countOf(stored.slice(0, 16))).toBe(16);
    expect(countOf(stored.slice(16))).toBe(0);
    expect(countOf(neverHit(admission, "asked twice", 2))).toBe(1);
    expect(admission.admits("another operation", "b")).toBe(true);
  });
});
