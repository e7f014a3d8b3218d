import { describe, expect, it } from "vitest";
import { resultTagsOf, writeTagNames } from "../../../src/store/body.js";
import { Responder } from "../../../src/tier/responder.js";

describe("the tags of a value that are read ahead", () => {
  const responder = new Responder({ unconfirmed: { has: () => false } } as never);
  // Tags that are created together have the same version.
  const version = "v".repeat(16);
  const ahead = (name: string) => ({ tags: { list: writeTagNames([name]), names: [name] }, versions: [version] });

  it("are those of the value, and not others of the same version", () => {
    const resultTags = resultTagsOf(["a"], [version]) as NonNullable<ReturnType<typeof resultTagsOf>>;
    expect(responder.knownTagsState(resultTags, ahead("a"))).toBe("current");
    expect(responder.knownTagsState(resultTags, ahead("b"))).toBeUndefined();
    expect(responder.knownTagsState(resultTags, undefined)).toBeUndefined();
  });
});
