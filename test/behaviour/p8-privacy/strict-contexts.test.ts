import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, waitForStores } from "../../support/world.js";

/** A context such as those of test doubles and containers, which refuses what it does not know. */
const strict = <Context extends object>(context: Context): Context =>
  new Proxy(context, {
    get(target, name) {
      if (typeof name === "string" && !(name in target)) throw new Error(`unknown property ${name}`);
      return Reflect.get(target, name) as unknown;
    },
    set() {
      throw new Error("read-only");
    },
  });

describe("a context that throws for properties that it does not have", () => {
  for (const [what, context] of [
    ["", {}],
    [", and for changes", { _shield: { cache: {} } }],
  ] as const)
    it(`does not fail the load of a PUBLIC field${what}`, async () => {
      let loads = 0;
      const privacy = { warnOnContextReads: false };
      const { ask, events } = memoryWorld().process(
        "type Query { film: Int @cached(maxAge: 60) }",
        { Query: { film: () => ++loads } },
        { privacy },
      );
      expect(await dataOf(ask("{ film }", strict(context)))).toEqual({ film: 1 });
      await waitForStores({ events }, 1);
      expect(await dataOf(ask("{ film }", strict(context)))).toEqual({ film: 1 });
    });
});
