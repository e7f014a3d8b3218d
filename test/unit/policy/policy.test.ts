import { describe, expect, it } from "vitest";
import { compilePolicy, mergeSettings, settingsMistakes } from "../../../src/policy/policy.js";

const compile = (said: readonly object[], profiles = {}, defaults = {}) => compilePolicy({ said, profiles, defaults });

describe("a policy", () => {
  it("is what the nearest layer says, in milliseconds", () => {
    const { policy, mistakes } = compile(
      [{ maxAge: 10 }, { maxAge: 20, staleIfError: 5, profile: "hot" }],
      { hot: { staleIfError: 6, jitter: 0 } },
      { jitter: 1, staleWhileRevalidate: 2 },
    );
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

  it("takes null and undefined for not said", () => {
    expect(mergeSettings({ maxAge: null, jitter: undefined } as never, { maxAge: 5, jitter: 0.5 })).toEqual({
      maxAge: 5,
      jitter: 0.5,
    });
  });

  it("keeps negativeMaxAge below maxAge where it comes from further away, and reports it where both are said together", () => {
    expect(compile([{ maxAge: 5 }], {}, { negativeMaxAge: 9 })).toMatchObject({
      mistakes: [],
      policy: { negativeMaxAgeMs: 5_000 },
    });
    expect(compile([{ maxAge: 5, negativeMaxAge: 9 }]).mistakes).toEqual([
      "`negativeMaxAge` must be at most maxAge (5), 9 came",
    ]);
  });

  it("does not take a profile from an object's prototype", () => {
    expect(compile([{ maxAge: 1, profile: "toString" }]).mistakes[0]).toContain("does not exist");
  });

  it("reports every setting that does not fit", () => {
    expect(
      settingsMistakes({
        maxAge: 1.5,
        jitter: 2,
        refresh: "NOW",
        neverExpires: 1,
        tags: [1],
        earlyRefresh: -1,
        profile: "",
      }),
    ).toHaveLength(7);
    expect(settingsMistakes([])).toEqual(["an object of policy settings was expected, an array came"]);
  });
});
