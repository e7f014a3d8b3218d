import fc from "fast-check";
import { expect, it, vi } from "vitest";
import { JsonParser } from "../../../src/codec/json-parser.js";
import { createPacking } from "../../../src/codec/packing.js";
import { PLAIN_PACKING } from "../../support/packing-settings.js";

/** What a parser makes of a text, or the kind of error that it throws. */
function outcomeOf(parse: () => unknown): { value: unknown; text?: string | undefined } | { error: string } {
  try {
    const value = parse();
    return { value, text: JSON.stringify(value) };
  } catch (error) {
    return { error: (error as Error).name };
  }
}

function expectSameAsJsonParse(parser: JsonParser, text: string): void {
  const expected = outcomeOf(() => JSON.parse(text));
  expect(outcomeOf(() => parser.parse(text, 0))).toStrictEqual(expected);
  const bytes = Buffer.from(`"${text}`);
  // Lone surrogates become another text.
  if (bytes.toString("utf8", 1) === text)
    expect(outcomeOf(() => parser.parse(text, 0, bytes, 1))).toStrictEqual(expected);
}

it("returns what JSON.parse returns, down to the order of fields, whatever it has parsed before", () => {
  const parser = new JsonParser();
  fc.assert(
    fc.property(fc.json({ maxDepth: 5 }), (text) => expectSameAsJsonParse(parser, text)),
    { numRuns: 2_000 },
  );
});

it("returns what JSON.parse returns for values whose fields vary, come in another order, or are left out", () => {
  const parser = new JsonParser();
  const member = fc.oneof(fc.string(), fc.double(), fc.constant(null), fc.boolean());
  const film = fc
    .record({ id: fc.string(), title: member, year: fc.integer(), cast: fc.array(member) }, { requiredKeys: [] })
    .chain((fields) => fc.shuffledSubarray(Object.entries(fields)).map((pairs) => Object.fromEntries(pairs)));
  fc.assert(
    fc.property(fc.array(film), (films) => expectSameAsJsonParse(parser, JSON.stringify(films))),
    { numRuns: 1_000 },
  );
});

it("returns what JSON.parse returns for texts of any script", () => {
  const parser = new JsonParser();
  fc.assert(
    fc.property(fc.array(fc.dictionary(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }))), (value) =>
      expectSameAsJsonParse(parser, JSON.stringify(value)),
    ),
    { numRuns: 1_000 },
  );
  const scripts = '{"constructor":"c","名前":"映画","title":"Amélie 🎬"}';
  for (let nth = 0; nth < 2; nth++) expectSameAsJsonParse(parser, scripts);
});

it("reads each number as the same double as JSON.parse, -0 included", () => {
  const parser = new JsonParser();
  const numberIn = (text: string): unknown => (parser.parse(text, 0) as unknown[])[0];
  const expectSame = (text: string): void => {
    expect(numberIn(text), text).toBe((JSON.parse(text) as unknown[])[0]);
  };
  for (const text of ["[-0]", "[0.1]", "[1e21]", "[-1E-7]", "[9007199254740993]", "[0.30000000000000004]", "[1e400]"])
    expectSame(text);
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => expectSame(JSON.stringify([number]))),
    { numRuns: 5_000 },
  );
  fc.assert(
    fc.property(fc.maxSafeInteger(), fc.nat(20), (digits, decimals) =>
      expectSame(`[${(digits / 10 ** decimals).toFixed(decimals)}]`),
    ),
    { numRuns: 5_000 },
  );
});

it("throws where JSON.parse does, for texts that are cut off or damaged", () => {
  const parser = new JsonParser();
  parser.parse('{"a":[1,{"b":"c"}]}', 0);
  const pieces = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    '"a":',
    "b",
    "0",
    "1",
    ".",
    "-",
    "e",
    "+",
    "true",
    "null",
    " ",
    "\\",
  ];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pieces)), (chosen) => expectSameAsJsonParse(parser, chosen.join(""))),
    { numRuns: 20_000 },
  );
  const text = '{"a":[1.5,{"b":"c"},true,null],"d":false}';
  for (let length = 0; length < text.length; length++) expectSameAsJsonParse(parser, text.slice(0, length));
});

it("returns what JSON.parse returns for bytes that are no UTF-8, which are as long as their text", () => {
  const parser = new JsonParser();
  for (const text of ['{"\ufffd":1}', '{"é":1}']) parser.parse(text, 0);
  const damaged = Buffer.from('{"é":1}', "latin1");
  expect(parser.parse(damaged.toString("utf8"), 0, damaged)).toEqual({ "\ufffd": 1 });
  const byte = fc.constantFrom(...Buffer.from('{}",:1aé'), 0xe9, 0xff, 0xbf, 0xed);
  fc.assert(
    fc.property(fc.array(byte, { minLength: 1 }), fc.array(byte), (name, rest) => {
      const bytes = Buffer.concat([Buffer.from('{"'), Buffer.from(name), Buffer.from('":1'), Buffer.from(rest)]);
      const text = bytes.toString("utf8");
      expect(outcomeOf(() => parser.parse(text, 0, bytes))).toStrictEqual(outcomeOf(() => JSON.parse(text)));
    }),
    { numRuns: 20_000 },
  );
});

it("makes an ordinary field of __proto__ and of the names of methods, at each place of an object", () => {
  for (const name of ["__proto__", "constructor", "toString"])
    for (const text of [`{"${name}":{"polluted":1}}`, `{"a":1,"${name}":[2]}`, `[{"a":{"${name}":"x"}}]`]) {
      const parser = new JsonParser();
      for (let nth = 0; nth < 3; nth++) {
        const value = parser.parse(text, 0);
        expect(JSON.stringify(value)).toBe(text);
        expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
      }
    }
});

it("parses a dictionary with more names than it remembers", () => {
  const parser = new JsonParser();
  for (let round = 0; round < 200; round++) {
    const names = Array.from({ length: 100 }, (_, nth) => `${nth % 2 === 0 ? "" : "n"}${nth * (round + 1)}`);
    expectSameAsJsonParse(parser, JSON.stringify(Object.fromEntries(names.map((name) => [name, { [name]: name }]))));
  }
});

it("decodes plain values of the default codec, and those with tags as before", () => {
  const { encode, decode } = createPacking(PLAIN_PACKING);
  for (const value of [{ a: [1, "b", null] }, "text", 7, null, { on: new Date(0) }, { $gc: 1 }, { text: 'a "b"\n' }])
    expect(decode(encode(value))).toStrictEqual(value);
});

it("decodes what was compressed from its text, whatever is in the compressed bytes", async () => {
  const { decode, encode, pack, unpack } = createPacking({ ...PLAIN_PACKING, compressAboveBytes: 10 });
  for (let length = 20; length < 200; length++) {
    const value = { title: "é".repeat(length) };
    const packed = await pack(encode(value));
    expect(decode(unpack(packed), packed)).toEqual(value);
    const inEntry = Buffer.concat([Buffer.alloc(7), packed]);
    expect(decode(unpack(inEntry, 7), inEntry, 7)).toEqual(value);
  }
});

it("is not used for values of a near cache, since strings can keep the text that they are a part of", () => {
  const parse = vi.spyOn(JsonParser.prototype, "parse");
  try {
    for (const [nearCache, calls] of [
      [{}, 0],
      [undefined, 1],
    ] as const) {
      const { encode, decode } = createPacking({ ...PLAIN_PACKING, nearCache });
      expect(decode(encode({ title: "A title of some length" }))).toEqual({ title: "A title of some length" });
      expect(parse).toHaveBeenCalledTimes(calls);
    }
  } finally {
    parse.mockRestore();
  }
});

it("leaves texts of more than four kilobytes to JSON.parse, for the same reason", () => {
  const parse = vi.spyOn(JSON, "parse");
  try {
    const parser = new JsonParser();
    const text = JSON.stringify("x".repeat(4_094));
    for (const [long, calls] of [
      [text, 0],
      [` ${text}`, 1],
    ] as const) {
      expect(parser.parse(long, long.length - text.length)).toBe("x".repeat(4_094));
      expect(parse).toHaveBeenCalledTimes(calls);
    }
  } finally {
    parse.mockRestore();
  }
});
