import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    me: String @cached(maxAge: 60, scope: PRIVATE)
    greeting: String @cached(maxAge: 60, key: ["$context.locale"])
  }
`;

interface Context {
  readonly userId?: unknown;
  readonly locale?: string;
}

function site() {
  const loads: unknown[] = [];
  const resolvers = {
    Query: {
      me: (_: unknown, __: unknown, { userId }: Context) => {
        loads.push(userId);
        return `secret of ${String(userId)}`;
      },
      greeting: (_: unknown, __: unknown, { locale }: Context) => `hello in ${String(locale)}`,
    },
  };
  return {
    loads,
    ...memoryWorld().process(typeDefs, resolvers, { identify: ({ userId }: Context) => userId } as object),
  };
}

describe("a private value", () => {
  it("is kept for each identity apart", async () => {
    const { loads, ask } = site();
    for (const userId of ["alice", "bob", "alice"])
      expect(await dataOf(ask("{ me }", { userId }))).toEqual({ me: `secret of ${userId}` });
    expect(loads).toEqual(["alice", "bob"]);
  });

  it("is never stored for somebody unknown, whatever the alias", async () => {
    for (const userId of [undefined, null, "", Number.NaN, {}, Promise.resolve("alice")]) {
      const { loads, ask, outcomes } = site();
      await ask("{ me }", { userId });
      await ask("{ s: me ...F } fragment F on Query { t: me }", { userId });
      expect(loads).toHaveLength(3);
      expect(outcomes()).toEqual({ "bypassed(NO_IDENTITY)": 3 });
    }
  });

  it("is not shared between a number and its text", async () => {
    const { loads, ask } = site();
    await ask("{ me }", { userId: 1 });
    await ask("{ me }", { userId: "1" });
    expect(loads).toEqual([1, "1"]);
  });

  it("shows in no event and in no key name", async () => {
    const { events, ask } = site();
    await ask("{ me }", { userId: "alice@example.org" });
    expect(JSON.stringify(events)).not.toContain("alice");
  });
});

describe("a part of the context in the key", () => {
  it("keeps values apart", async () => {
    const { ask } = site();
    expect(await dataOf(ask("{ greeting }", { locale: "de" }))).toEqual({ greeting: "hello in de" });
    expect(await dataOf(ask("{ greeting }", { locale: "fr" }))).toEqual({ greeting: "hello in fr" });
  });

  it("that is missing keeps the field from being cached", async () => {
    const { ask, outcomes } = site();
    await ask("{ greeting }", {});
    expect(outcomes()).toEqual({ "bypassed(KEY_UNUSABLE)": 1 });
  });
});
