import { inspect } from "node:util";
import { expect, it } from "vitest";
import { dataOf, onEachStore, type Process, type World } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  scalar JSON
  input Filter { id: JSON name: String }
  type Query {
    search(a: String, b: String, n: Float, flag: Boolean, list: [[String]], json: JSON, f: Filter): String @cached(maxAge: 60)
    part(json: JSON): String @cached(maxAge: 60, key: ["$args.json.id"])
    whole(json: JSON): String @cached(maxAge: 60, key: ["$args.json"], tags: ["{$args.json}"])
    filtered(f: Filter): String @cached(maxAge: 60, key: ["$args.f.id"])
  }
`;

/** Says exactly what it was given; texts are told apart by their code units. */
const said = (_: unknown, args: object): string =>
  inspect(args, { depth: 99, compact: true, breakLength: 1e6, maxStringLength: 99 }).replace(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16)}`,
  );

const json = (text: string): object => ({ json: JSON.parse(text) as unknown });
type Forged = readonly [query: string, mine: object, yours: object];
const SEARCH =
  "query Q($a: String, $b: String, $n: Float, $flag: Boolean, $list: [[String]], $json: JSON, $f: Filter) { v: search(a: $a, b: $b, n: $n, flag: $flag, list: $list, json: $json, f: $f) }";
const PART = "query Q($json: JSON) { v: part(json: $json) }";
const WHOLE = "query Q($json: JSON) { v: whole(json: $json) }";
const FILTERED = "query Q($f: Filter) { v: filtered(f: $f) }";

/** Two calls that a careless key takes for one. */
const FORGED: Readonly<Record<string, Forged>> = {
  "a separator moves from one argument to the next": [SEARCH, { a: "x,y", b: "z" }, { a: "x", b: "y,z" }],
  "an argument spells out the next one": [SEARCH, { a: 'x","b":"y' }, { a: "x", b: "y" }],
  "a value moves to another argument": [SEARCH, { a: "x" }, { b: "x" }],
  "a number is its text": [SEARCH, json("1"), json('"1"')],
  "a number is true": [SEARCH, json("1"), json("true")],
  "an object is its JSON": [SEARCH, json('{"x":"1"}'), json('"{\\"x\\":\\"1\\"}"')],
  "an object has another's number as text": [SEARCH, json('{"x":"1"}'), json('{"x":1}')],
  "null is absent": [SEARCH, { a: null }, {}],
  "null is its name": [SEARCH, json("null"), json('"null"')],
  "a list is flat": [SEARCH, { list: [["a"], ["b"]] }, { list: [["a", "b"]] }],
  "a list is empty inside": [SEARCH, { list: [[]] }, { list: [] }],
  "a list holds null": [SEARCH, { list: [[null]] }, { list: [null] }],
  "a list is an object with indexes": [SEARCH, json('["a"]'), json('{"0":"a"}')],
  "a list is in another order": [SEARCH, json('["a","b"]'), json('["b","a"]')],
  "a zero has a sign": [SEARCH, { n: 0 }, { n: -0 }],
  "a field is named __proto__": [SEARCH, json('{"__proto__":{"id":1}}'), json('{"__proto__":{"id":2}}')],
  "a field is named constructor": [SEARCH, json('{"constructor":1}'), json("{}")],
  "a field is named toString or toJSON": [
    SEARCH,
    json('{"toJSON":"a","toString":"x"}'),
    json('{"toJSON":"b","toString":"x"}'),
  ],
  "a letter is composed, and decomposed": [SEARCH, { a: "\u00e9" }, { a: "e\u0301" }],
  "a letter looks like another alphabet's": [SEARCH, { a: "admin" }, { a: "\u0430dmin" }],
  "a character has no width": [SEARCH, { a: "admin" }, { a: "ad\u200bmin" }],
  "a text ends in NUL": [SEARCH, { a: "admin" }, { a: "admin\u0000" }],
  "half a character stands alone": [SEARCH, { a: "\ud800" }, { a: "\ud801" }],
  "the replacement character stands for half a one": [SEARCH, { a: "\ud800" }, { a: "\ufffd" }],
  "a text says what the key writes for others": [SEARCH, json('"n1"'), json("1")],
  "case differs": [SEARCH, { a: "Alice" }, { a: "alice" }],
  "a key reads null where a list was given": [FILTERED, { f: { id: null } }, { f: { id: [true] } }],
  "a key reads what is absent where a list was given": [PART, json("null"), json('{"id":[true]}')],
  "a key reads a part of what has no parts": [PART, json('"alice"'), json('"bob"')],
  "a key reads a part of a list": [PART, json('["alice"]'), json('["bob"]')],
  "a key reads an argument that is null, and one whose part is": [FILTERED, { f: null }, { f: { id: null } }],
  "a key reads a whole object named like one of ours": [WHOLE, json('{"depth":0,"isNull":true}'), json("null")],
  "a tag is made of a lone list": [WHOLE, json('["Movie:1"]'), json('"Movie:1"')],
};

async function answers({ ask }: Process, [query, mine, yours]: Forged): Promise<unknown[]> {
  const variables = [mine, yours, mine, yours] as Record<string, unknown>[];
  const given: unknown[] = [];
  for (const one of variables) given.push(await dataOf(ask(query, {}, one)));
  return given;
}

function attacks(world: () => World): void {
  const resolvers = { Query: { search: said, part: said, whole: said, filtered: said } };
  for (const [forgery, forged] of Object.entries(FORGED))
    it(`is not shared where ${forgery}`, async () => {
      const [first, second, third, fourth] = await answers(world().process(typeDefs, resolvers), forged);
      expect(second).not.toEqual(first);
      expect([third, fourth]).toEqual([first, second]);
    });

  it("is not cached for arguments without end, and the request goes on", async () => {
    const one = world().process(typeDefs, resolvers);
    const deep = JSON.parse(`${"[".repeat(5_000)}${"]".repeat(5_000)}`) as unknown;
    for (const variables of [{ json: deep }, { json: "x".repeat(1_000_000) }, { json: Array.from({ length: 1e5 }) }])
      expect((await one.ask(SEARCH, {}, variables)).errors).toBeUndefined();
    expect(one.outcomes()).toEqual({ "bypassed(KEY_UNUSABLE)": 3 });
  });
}

onEachStore("what was made for other arguments", attacks);
