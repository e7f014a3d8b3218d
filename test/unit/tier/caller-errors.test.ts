import { FakeClock } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import type { Key } from "../../../src/core/keys/key.js";
import { CallerErrors } from "../../../src/core/tier/source/error-signs.js";

describe("CallerErrors", () => {
  const [key, other] = [{ input: "key" }, { input: "other" }] as [Key, Key];

  it("end the sharing of their key with the second in a row, for a while", async () => {
    const clock = new FakeClock();
    const errors = new CallerErrors(clock, 1_000);
    expect([errors.add(key), errors.add(other), errors.add(key), errors.add(key)]).toEqual([false, false, true, false]);
    expect([errors.isUnshared(key), errors.isUnshared(other)]).toEqual([true, false]);
    await clock.advance(1_000);
    expect(errors.isUnshared(key)).toBe(false);
  });

  it("are not in a row if a load of their key has ended otherwise between them", () => {
    const errors = new CallerErrors(new FakeClock(), 1_000);
    errors.add(key);
    errors.endSeries(other);
    errors.endSeries(key);
    expect(errors.add(key)).toBe(false);
    expect(errors.add(key)).toBe(true);
  });
});
