import { gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../../support/world.js";

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

function createSite() {
  const loads: unknown[] = [];
  const resolvers = {
    Query: {
      me: (_: unknown, __: unknown, { userId }: Context) => (loads.push(userId), `secret of ${String(userId)}`),
      greeting: (_: unknown, __: unknown, { locale }: Context) => `hello in ${String(locale)}`,
    },
  };
  return {
    loads,
    ...memoryWorld().process(typeDefs, resolvers, { identify: ({ userId }: Context) => userId } as object),
  };
}

describe("private values", () => {
  it("stores private values separately for each identity", async () => {
    const { loads, ask } = createSite();
    for (const userId of ["alice", "bob", "alice"])
      expect(await dataOf(ask("{ me }", { userId }))).toEqual({ me: `secret of ${userId}` });
    expect(loads).toEqual(["alice", "bob"]);
  });

  it("never stores a private value without an identity, whatever the alias", async () => {
    for (const userId of [undefined, null, "", Number.NaN, {}, Promise.resolve("alice")]) {
      const { loads, ask, outcomes } = createSite();
      await ask("{ me }", { userId });
      await ask("{ s: me ...F } fragment F on Query { t: me }", { userId });
      expect(loads).toHaveLength(3);
      expect(outcomes()).toEqual({ "bypassed(NO_IDENTITY)": 3 });
    }
  });

  it("does not share the error of a context that has changed its identity with others of that identity", async () => {
    const loadGate = gate();
    let loads = 0;
    const me = async (_: unknown, __: unknown, context: { userId: string; next?: string }): Promise<string> => {
      loads++;
      await loadGate.passed;
      context.userId = context.next ?? context.userId;
      return "secret";
    };
    const { ask } = memoryWorld().process(typeDefs, { Query: { me } }, {
      identify: ({ userId }: Context) => userId,
    } as object);
    const changed = ask("{ me }", { userId: "alice", next: "mallory" });
    while (loads === 0) await settle();
    const other = ask("{ me }", { userId: "alice" });
    await settle();
    loadGate.open();
    expect((await changed).errors?.[0]?.originalError).toMatchObject({ code: "CACHED_IDENTITY_CHANGED" });
    expect(await dataOf(other)).toEqual({ me: "secret" });
    expect(await dataOf(ask("{ me }", { userId: "alice" }))).toEqual({ me: "secret" });
    expect(loads).toBe(2);
  });

  it("does not expose the identity in events", async () => {
    const { events, ask } = createSite();
    await ask("{ me }", { userId: "alice@example.org" });
    expect(JSON.stringify(events)).not.toContain("alice");
  });
});

describe("context properties in the key", () => {
  it("stores a separate value for each value of a context property in the key", async () => {
    const { ask } = createSite();
    expect(await dataOf(ask("{ greeting }", { locale: "de" }))).toEqual({ greeting: "hello in de" });
    expect(await dataOf(ask("{ greeting }", { locale: "fr" }))).toEqual({ greeting: "hello in fr" });
  });

  it("bypasses the cache when a context property of the key is missing", async () => {
    const { ask, outcomes } = createSite();
    await ask("{ greeting }", {});
    expect(outcomes()).toEqual({ "bypassed(KEY_UNUSABLE)": 1 });
  });
});
