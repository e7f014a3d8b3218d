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

/** Returns its arguments in full, with non-ASCII characters as code units. */
const inspectArguments = (_: unknown, args: object): string =>
  inspect(args, { depth: 99, compact: true, breakLength: 1e6, maxStringLength: 99 }).replace(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16)}`,
  );

const json = (text: string): object => ({ json: JSON.parse(text) as unknown });
type Forgery = readonly [query: string, first: object, second: object];
const SEARCH =
  "query Q($a: String, $b: String, $n: Float, $flag: Boolean, $list: [[String]], $json: JSON, $f: Filter) { v: search(a: $a, b: $b, n: $n, flag: $flag, list: $list, json: $json, f: $f) }";
const PART = "query Q($json: JSON) { v: part(json: $json) }";
const WHOLE = "query Q($json: JSON) { v: whole(json: $json) }";
const FILTERED = "query Q($f: Filter) { v: filtered(f: $f) }";

/** Pairs of variables that a careless key encoding maps to the same key. */
const FORGERIES: Readonly<Record<string, Forgery>> = {
  "a separator moves from one argument to the next": [SEARCH, { a: "x,y", b: "z" }, { a: "x", b: "y,z" }],
  "a string argument imitates the next argument": [SEARCH, { a: 'x","b":"y' }, { a: "x", b: "y" }],
  "a value moves to another argument": [SEARCH, { a: "x" }, { b: "x" }],
  "a number equals its string": [SEARCH, json("1"), json('"1"')],
  "a number equals true": [SEARCH, json("1"), json("true")],
  "an object equals its JSON text": [SEARCH, json('{"x":"1"}'), json('"{\\"x\\":\\"1\\"}"')],
  "objects differ in a number and its string": [SEARCH, json('{"x":"1"}'), json('{"x":1}')],
  "null equals an absent argument": [SEARCH, { a: null }, {}],
  "null equals the string null": [SEARCH, json("null"), json('"null"')],
  "lists differ in nesting": [SEARCH, { list: [["a"], ["b"]] }, { list: [["a", "b"]] }],
  "a list contains an empty list": [SEARCH, { list: [[]] }, { list: [] }],
  "lists differ in nested null": [SEARCH, { list: [[null]] }, { list: [null] }],
  "a list equals an object with indexes": [SEARCH, json('["a"]'), json('{"0":"a"}')],
  "lists differ in order": [SEARCH, json('["a","b"]'), json('["b","a"]')],
  "zeros differ in sign": [SEARCH, { n: 0 }, { n: -0 }],
  "a field is named __proto__": [SEARCH, json('{"__proto__":{"id":1}}'), json('{"__proto__":{"id":2}}')],
  "a field is named constructor": [SEARCH, json('{"constructor":1}'), json("{}")],
  "a field is named toString or toJSON": [
    SEARCH,
    json('{"toJSON":"a","toString":"x"}'),
    json('{"toJSON":"b","toString":"x"}'),
  ],
  "a letter is composed or decomposed": [SEARCH, { a: "\u00e9" }, { a: "e\u0301" }],
  "a letter looks like one of another alphabet": [SEARCH, { a: "admin" }, { a: "\u0430dmin" }],
  "a character has zero width": [SEARCH, { a: "admin" }, { a: "ad\u200bmin" }],
  "a string ends in NUL": [SEARCH, { a: "admin" }, { a: "admin\u0000" }],
  "lone surrogates differ": [SEARCH, { a: "\ud800" }, { a: "\ud801" }],
  "a lone surrogate equals the replacement character": [SEARCH, { a: "\ud800" }, { a: "\ufffd" }],
  "a string imitates the encoding of a number": [SEARCH, json('"n1"'), json("1")],
  "letter case differs": [SEARCH, { a: "Alice" }, { a: "alice" }],
  "a key path reads null or a list": [FILTERED, { f: { id: null } }, { f: { id: [true] } }],
  "a key path reads an absent value or a list": [PART, json("null"), json('{"id":[true]}')],
  "a key path reads a property of a string": [PART, json('"alice"'), json('"bob"')],
  "a key path reads a property of a list": [PART, json('["alice"]'), json('["bob"]')],
  "a key path reads a null argument or a null property": [FILTERED, { f: null }, { f: { id: null } }],
  "a key path reads an object that imitates an internal one": [WHOLE, json('{"depth":0,"isNull":true}'), json("null")],
  "a tag is made of a list or its only item": [WHOLE, json('["Movie:1"]'), json('"Movie:1"')],
};

/** Executes both calls twice, in turn. */
async function executeTwice({ ask }: Process, [query, first, second]: Forgery): Promise<unknown[]> {
  const calls = [first, second, first, second] as Record<string, unknown>[];
  const results: unknown[] = [];
  for (const variables of calls) results.push(await dataOf(ask(query, {}, variables)));
  return results;
}

function argumentTests(world: () => World): void {
  const resolvers = {
    Query: { search: inspectArguments, part: inspectArguments, whole: inspectArguments, filtered: inspectArguments },
  };
  for (const [how, forgery] of Object.entries(FORGERIES))
    it(`does not share values between different arguments where ${how}`, async () => {
      const [first, second, third, fourth] = await executeTwice(world().process(typeDefs, resolvers), forgery);
      expect(second).not.toEqual(first);
      expect([third, fourth]).toEqual([first, second]);
    });

  it("bypasses the cache for oversized arguments without failing the request", async () => {
    const process = world().process(typeDefs, resolvers);
    const deep = JSON.parse(`${"[".repeat(5_000)}${"]".repeat(5_000)}`) as unknown;
    for (const variables of [{ json: deep }, { json: "x".repeat(1_000_000) }, { json: Array.from({ length: 1e5 }) }])
      expect((await process.ask(SEARCH, {}, variables)).errors).toBeUndefined();
    expect(process.outcomes()).toEqual({ "bypassed(KEY_UNUSABLE)": 3 });
  });
}

onEachStore("values of other arguments", argumentTests);
