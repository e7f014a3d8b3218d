import { describe, expect, it } from "vitest";
import { compilePolicy, contradictions, mergeSettings, settingsMistakes } from "../../../src/core/policy/policy.js";

const compile = (declared: readonly object[], defaults = {}) =>
  compilePolicy({ declared, defaults: { scope: "PUBLIC", ...defaults } });

describe("compilePolicy", () => {
  it("takes each setting from the layer of highest precedence and converts it to milliseconds", () => {
    const { policy, mistakes } = compile([{ maxAge: 10 }, { maxAge: 20, staleIfError: 5, jitter: 0 }], {
      jitter: 1,
      staleWhileRevalidate: 2,
    });
    expect(mistakes).toEqual([]);
    expect(policy).toMatchObject({
      maxAgeMs: 10_000,
      staleIfErrorMs: 5_000,
      jitterRatio: 0,
      staleWhileRevalidateMs: 2_000,
      refresh: "BACKGROUND",
      scope: "PUBLIC",
    });
  });

  it("treats null and undefined as absent settings", () => {
    expect(mergeSettings({ maxAge: null, jitter: undefined } as never, { maxAge: 5, jitter: 0.5 })).toEqual({
      maxAge: 5,
      jitter: 0.5,
    });
  });

  it("raises a maxAgeLimit to the maxAge of another layer, and reduces a negativeMaxAge to it", () => {
    const others = { maxAgeLimit: 5, negativeMaxAge: 9 };
    for (const compiled of [
      compile([{ maxAge: 7 }], others),
      compile([{ maxAge: 7 }, others]),
      compile([others], { maxAge: 7 }),
    ])
      expect(compiled).toMatchObject({ mistakes: [], policy: { maxAgeLimitMs: 7_000, negativeMaxAgeMs: 7_000 } });
    expect(compile([{ maxAge: 0 }, others]).mistakes).toEqual([]);
  });

  it("reports settings of one layer that contradict each other", () => {
    expect(contradictions({ maxAge: 9, maxAgeLimit: 5 })).toEqual([
      "`maxAgeLimit`: expected an integer of at least `maxAge` (9), got 5",
    ]);
    expect(contradictions({ maxAge: 0, maxAgeLimit: 5 })).toEqual([
      "`maxAgeLimit`: expected nothing with `maxAge: 0`, which turns caching off, got 5; set `maxAge` to at least 1",
    ]);
    expect(contradictions({ maxAge: 5, negativeMaxAge: 9 })).toEqual([
      "`negativeMaxAge`: expected an integer of at most `maxAge` (5), got 9",
    ]);
    for (const fine of [
      { maxAge: 5, maxAgeLimit: 5, negativeMaxAge: 5 },
      { maxAgeLimit: 5, negativeMaxAge: 9 },
    ])
      expect(contradictions(fine)).toEqual([]);
    expect(contradictions({ maxAge: null, maxAgeLimit: 5 } as never)).toEqual([]);
  });

  it("reports every invalid setting with what was expected and what it got", () => {
    expect(
      settingsMistakes({
        maxAge: "60s",
        staleIfError: 2 ** 31,
        jitter: 2,
        refresh: "NOW",
        neverExpires: 1,
        tags: [1],
        earlyRefresh: -1,
        version: "",
      }),
    ).toEqual([
      '`maxAge`: expected an integer of at least 0 (seconds), got "60s"',
      "`staleIfError`: expected an integer of at most 2147483647 (seconds), got 2147483648",
      "`jitter`: expected a number from 0 to 1, got 2",
      '`refresh`: expected "BACKGROUND" or "FOREGROUND", got "NOW"',
      "`neverExpires`: expected true or false, got 1",
      "`tags`: expected an array of strings, got an array",
      "`earlyRefresh`: expected a number of at least 0, got -1",
      '`version`: expected a non-empty string, got ""',
    ]);
    expect(settingsMistakes({ maxAge: 1.5 })).toEqual([
      "`maxAge`: expected an integer of at least 0 (seconds), got 1.5",
    ]);
    expect(settingsMistakes({ ttl: 60 }, ["maxAge", "jitter"])).toEqual([
      "`ttl`: unknown setting; expected one of `maxAge`, `jitter`; did you mean `maxAge`, in seconds?",
    ]);
    expect(settingsMistakes([])).toEqual(["expected an object of policy settings, got an array"]);
  });
});
