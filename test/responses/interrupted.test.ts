import { settle } from "@graphql-cached/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { openSite, type ServerName } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { now: Int @cacheControl(maxAge: 60) }
`;
const resolvers = { Query: { now: () => 1 } };

/** Asks once, which fails, and once more. Returns what the second answer is before any time has passed. */
async function secondAnswer(server: ServerName, plugin: object): Promise<unknown> {
  const { ask, clock } = openSite({ typeDefs, resolvers, server, plugins: [plugin] });
  await ask("{ now }").catch(() => undefined);
  let data: unknown;
  const answer = ask("{ now }").then((one) => (data = one.data));
  for (let turn = 0; turn < 20 && data === undefined; turn++) await settle();
  const before = data;
  // The time limit of loads, and that of a server that stops, so that the test ends.
  await clock.advance(31_000);
  await answer;
  onTestFinished(
    () =>
      void Array.from({ length: 20 }).reduce((last: Promise<void>) => last.then(() => clock.advance(1_000)), settle()),
  );
  return before;
}

describe("the next request is answered at once after one whose execution has never ended, since", () => {
  /** Throws once. */
  const failing = () => {
    let isFirst = true;
    return (): null => {
      if (!isFirst) return null;
      isFirst = false;
      throw new Error("broken plugin");
    };
  };

  it.each(["responseForOperation", "executionDidStart"])(
    "%s of another plugin of Apollo Server has thrown",
    async (hook) => {
      const fail = failing();
      const plugin = { requestDidStart: async () => ({ [hook]: async () => fail() ?? undefined }) };
      expect(await secondAnswer("Apollo Server", plugin)).toEqual({ now: 1 });
    },
  );

  it("the hook onExecute of another plugin of GraphQL Yoga has thrown", async () => {
    const fail = failing();
    expect(await secondAnswer("GraphQL Yoga", { onExecute: () => void fail() })).toEqual({ now: 1 });
  });

  it("the executor of GraphQL Yoga has thrown", async () => {
    let isFirst = true;
    const plugin = {
      onExecute({ setExecuteFn }: { setExecuteFn(run: () => Promise<never>): void }) {
        if (isFirst) setExecuteFn(() => Promise.reject(new Error("subgraph away")));
        isFirst = false;
      },
    };
    expect(await secondAnswer("GraphQL Yoga", plugin)).toEqual({ now: 1 });
  });
});
