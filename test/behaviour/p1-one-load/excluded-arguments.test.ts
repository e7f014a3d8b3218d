import { settle } from "@graphql-cached/testing";
import type { GraphQLResolveInfo } from "graphql";
import { describe, expect, it } from "vitest";
import { variablesOf } from "../../support/graphql-17.js";
import { mistakeIn } from "../../support/listen.js";
import { dataOf, memoryWorld } from "../../support/world.js";

const input = "input Filter { genre: String trace: Trace debug: Boolean } input Trace { id: ID level: Int }";
const args = "(text: String!, n: Int = 10, filter: Filter, debugId: ID)";

/** Returns how often a field with this directive is loaded when each of these calls is made twice. */
async function loadsOf(directive: string, calls: readonly string[], policies = {}): Promise<number> {
  let loads = 0;
  const load = (): number => ++loads;
  const { ask } = memoryWorld().process(
    `${input} type Query { search${args}: Int ${directive} film(id: ID): Film } type Film { id: ID search${args}: Int ${directive} }`,
    { Query: { search: load, film: (_: unknown, { id }: { id: string }) => ({ id }) }, Film: { search: load } },
    {},
    { policies },
  );
  for (const call of [...calls, ...calls]) {
    await dataOf(ask(`{ ${call} }`));
    await settle();
  }
  return loads;
}

const CACHED = '@cached(maxAge: 60, key: ["$args", "!$args.debugId"])';

describe("a key with all arguments but some", () => {
  it("is the same whatever these arguments are", async () => {
    const same = ["", ", debugId: 1", ", debugId: 2, n: 10", ", debugId: null"];
    const calls = same.map((more) => `search(text: "a"${more})`);
    expect(await loadsOf(CACHED, calls)).toBe(1);
  });

  it("differs with every other argument, and tells null from absence", async () => {
    const others = ['text: "b"', 'text: "a", n: 9', 'text: "a", filter: null', 'text: "a", filter: {}'];
    const calls = others.flatMap((other) => [`search(${other})`, `search(${other}, debugId: 1)`]);
    expect(await loadsOf(CACHED, calls)).toBe(4);
  });

  it("can leave out fields of input objects", async () => {
    const directive =
      '@cached(maxAge: 60, key: ["$args", "!$args.filter.debug", "!$args.filter.trace.id", "!$args.debugId"])';
    const callsOf = (...filters: string[]) => filters.map((filter) => `search(text: "a", filter: {${filter}})`);
    const level = "trace: { level: 1 }";
    const same = callsOf(
      `debug: true, ${level}`,
      "debug: false, trace: { id: 1, level: 1 }",
      "trace: { id: 2, level: 1 }",
    );
    expect(await loadsOf(directive, same)).toBe(1);
    const others = callsOf("debug: true, trace: { level: 2 }", `debug: true, genre: "b", ${level}`, "");
    expect(await loadsOf(directive, [...same, ...others])).toBe(4);
  });

  const OF_FILMS = [1, 2].flatMap((id) => [3, 4].map((n) => `film(id: ${id}) { search(text: "a", debugId: ${n}) }`));

  it("is the default key without them if it says nothing else", async () => {
    expect(await loadsOf('@cached(maxAge: 60, key: ["!$args.debugId"])', OF_FILMS)).toBe(2);
  });

  it("can be combined with other parts, and be set in `policies`", async () => {
    const key = ["$args", "!$args.debugId", "$source.id"];
    expect(await loadsOf("", OF_FILMS, { "Film.search": { maxAge: 60, key } })).toBe(2);
  });

  const [WITHOUT_ID, WITHOUT_DEBUG] = ["debugId", "filter.debug"].map(
    (path) => `["$args", "!$args.${path}", "$selection"]`,
  ) as [string, string];
  it.each<[what: string, key: string, call: string, type: string, values: readonly [unknown, unknown]]>([
    ["an argument", WITHOUT_ID, "debugId: $t", "ID", [1, 2]],
    ["an argument that is not named", '["$args.text", "$selection"]', "debugId: $t", "ID", [1, 2]],
    ["a field of an input object", WITHOUT_DEBUG, 'filter: { genre: "a", debug: $t }', "Boolean", [true, false]],
    ["an input object that has it", WITHOUT_DEBUG, "filter: $t", "Filter", [{ debug: true }, { debug: false }]],
  ])("is the same beside the selection if a variable is %s that the key leaves out", async (_, ...all) => {
    const [key, call, type, values] = all;
    for (const look of [() => undefined, (info: GraphQLResolveInfo) => variablesOf(info).t]) {
      let loads = 0;
      const search = (...[, , , info]: [unknown, unknown, unknown, GraphQLResolveInfo]) => ({
        n: ++loads,
        seen: look(info),
      });
      const { ask } = memoryWorld().process(
        `${input} type Query { search${args}: Found @cached(maxAge: 60, key: ${key}) } type Found { n: Int }`,
        { Query: { search } },
      );
      for (const [text, t] of ["a", "b"].flatMap((one) => values.map((value) => [one, value]))) {
        const source = `query ($text: String!, $t: ${type}) { search(text: $text, ${call}) { n } }`;
        await dataOf(ask(source, {}, { text, t }));
        await settle();
      }
      expect(loads).toBe(2);
    }
  });

  it("differs between the types of an interface, of which one leaves out an argument that all are asked with", async () => {
    const loads: string[] = [];
    const type = (name: string, key: string) =>
      `type ${name} implements Node { id: ID search(t: ID): Found @cached(maxAge: 60, key: ["$args", ${key} "$selection"]) }`;
    const search = (name: string) => () => (loads.push(name), { n: 1 });
    const nodes = () => [{ __typename: "A" }, { __typename: "B" }];
    const { ask } = memoryWorld().process(
      `type Query { nodes: [Node] } interface Node { search(t: ID): Found } type Found { n: Int }
       ${type("A", '"!$args.t",')} ${type("B", "")}`,
      { Query: { nodes }, A: { search: search("A") }, B: { search: search("B") } },
    );
    for (const t of [1, 2, 1, 2]) {
      await dataOf(ask("query ($t: ID) { nodes { search(t: $t) { n } } }", {}, { t }));
      await settle();
    }
    expect(loads).toEqual(["A", "B", "B"]);
  });

  it("is named without them by an invalidation", async () => {
    let loads = 0;
    const { ask, cache } = memoryWorld().process(`${input} type Query { search${args}: Int ${CACHED} }`, {
      Query: { search: () => ++loads },
    });
    const read = (): Promise<unknown> => dataOf(ask('{ search(text: "a", debugId: 5) }'));
    expect(await read()).toEqual({ search: 1 });
    await settle();
    await cache.invalidate({ coordinate: "Query.search", args: { text: "a" } });
    expect(await read()).toEqual({ search: 2 });
  });

  it.each([
    ['["$args", "!$args.debugID"]', "!$args.debugID"],
    ['["$args.text", "!$args.debugId"]', "!$args.debugId"],
    ['["$args", "!$args.filter.unknown"]', "!$args.filter.unknown"],
    ['["$args", "!$args.ids.a"]', "!$args.ids.a"],
    ['["$args", "!$args.json.a"]', "!$args.json.a"],
    ['["$args", "!$args"]', "!$args"],
    ['["$args", "!$context.locale"]', "!$context.locale"],
    ['["$args", "!debugId"]', "!debugId"],
  ])("is refused if it leaves out what it does not have: %s", (key, got) => {
    const given = "text: String, filter: Filter, ids: [ID], json: JSON, debugId: ID";
    const typeDefs = `scalar JSON ${input} type Query { search(${given}): Int @cached(maxAge: 60, key: ${key}) }`;
    expect(mistakeIn(typeDefs)).toContain(
      `\`key\`: expected \`!\` before the path of an argument of \`$args\`, or of a field of its input object, and \`$args\` in the key, got ${JSON.stringify(got)}`,
    );
  });
});
