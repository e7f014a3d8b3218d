import { randomBytes } from "node:crypto";
import { deflateSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { type Codec, Unreadable } from "../../../src/core/codec/codec.js";
import { createPacking, type PackingSettings, StoredText } from "../../../src/core/codec/packing.js";
import { msgpackrCodec } from "../../support/msgpackr-codec.js";

const packing = (settings: Partial<PackingSettings> = {}): ReturnType<typeof createPacking> =>
  createPacking({
    codec: undefined,
    types: undefined,
    compressAboveBytes: undefined,
    maxValueBytes: 2 ** 20,
    encryption: undefined,
    ...settings,
  });
const customCodec = (id?: string): Codec => ({
  ...(id === undefined ? {} : { id }),
  encode: (value) => JSON.stringify(value),
  decode: (content) => JSON.parse(content as string) as unknown,
});
const films = Array.from({ length: 2_000 }, (_, index) => ({ id: index, title: `Film ${index}`, on: new Date(index) }));

describe("packed content", () => {
  it("is unpacked unchanged, text as text and bytes as bytes", async () => {
    for (const settings of [{}, { compressAboveBytes: 0 }, { compressAboveBytes: 100 }])
      for (const content of [
        "",
        "j1",
        'j"é\ud83d\ude00"',
        "x".repeat(1_000),
        Buffer.alloc(0),
        Buffer.alloc(50_000, 7),
      ]) {
        const { pack, unpack } = packing(settings);
        expect(unpack(await pack(content))).toEqual(content);
      }
  });

  it("is compressed above compressAboveBytes if that saves space, and read with any setting", async () => {
    const compressing = packing({ compressAboveBytes: 1_000 });
    for (const value of [films, films.slice(0, 50)]) {
      const text = compressing.encode(value);
      const packed = await compressing.pack(text);
      expect(packed.length).toBeLessThan(text.length / 3);
      expect(packing().unpack(packed)).toBe(text);
    }
    const short = "x".repeat(1_000);
    expect((await compressing.pack(short)).length).toBeGreaterThan(1_000);
    const noise = randomBytes(5_000);
    expect((await compressing.pack(noise)).length).toBe(5_000 + 2 + "json".length);
    expect((await packing().pack("x".repeat(5_000))).length).toBeGreaterThan(5_000);
  });

  it("is unpacked from the end of an entry, compressed or not", async () => {
    for (const compressAboveBytes of [10, undefined]) {
      const { encode, pack, unpack } = packing({ compressAboveBytes });
      for (const length of [20, 200]) {
        const content = encode({ title: "é".repeat(length) });
        const inEntry = Buffer.concat([Buffer.alloc(7), await pack(content)]);
        expect(unpack(inEntry, 7)).toBe(content);
      }
    }
  });

  it("written by another codec is rejected, whatever its bytes", async () => {
    const wrong = "its value was written by another codec";
    const [json, bytes] = [packing(), packing({ codec: msgpackrCodec() })];
    expect(() => json.unpack(Buffer.from([2, 4]))).toThrow(wrong);
    const fromJson = await json.pack(json.encode(films));
    const fromMsgpackr = await bytes.pack(bytes.encode(films));
    expect(() => bytes.unpack(fromJson)).toThrow(wrong);
    expect(() => json.unpack(fromMsgpackr)).toThrow(wrong);
    expect(bytes.decode(bytes.unpack(fromMsgpackr))).toEqual(films);
    expect(() => packing({ codec: customCodec("b") }).unpack(Buffer.from("\u0001\u0001a1"))).toThrow(wrong);
    const unnamed = packing({ codec: customCodec() });
    expect(unnamed.decode(unnamed.unpack(await unnamed.pack(unnamed.encode([1]))))).toEqual([1]);
  });

  it("never decompresses to more than maxValueBytes", async () => {
    const bomb = deflateSync(Buffer.alloc(64 * 2 ** 20, "a"));
    const head = Buffer.from(await packing().pack("")).fill(3, 0, 1);
    expect(bomb.length).toBeLessThan(2 ** 17);
    expect(() => packing().unpack(Buffer.concat([head, bomb]))).toThrow(
      "larger than `storage.maxValueBytes` in this process",
    );
    const honest = await packing({ maxValueBytes: 10_000 }).pack("x".repeat(10_000));
    expect(packing({ maxValueBytes: 10_000 }).unpack(honest)).toHaveLength(10_000);
    expect(() => packing({ maxValueBytes: 9_999 }).unpack(honest)).toThrow("larger than");
  });

  it("that is damaged is rejected as unreadable", async () => {
    const { pack, unpack } = packing({ compressAboveBytes: 0 });
    const packed = Buffer.from(await pack("x".repeat(100)));
    packed.writeUInt8(packed.readUInt8(packed.length - 1) ^ 1, packed.length - 1);
    expect(() => unpack(packed)).toThrow("its compressed content is damaged");
    expect(() => unpack(Buffer.from([9, 4, 0]))).toThrow("its value is damaged");
    for (const bytes of [Buffer.alloc(0), Buffer.from([1])]) expect(() => unpack(bytes)).toThrow(Unreadable);
  });
});

describe("a stored text", () => {
  it("passes by every codec, compressed or not", async () => {
    for (const settings of [{}, { compressAboveBytes: 1 }, { codec: msgpackrCodec() }, { codec: customCodec() }])
      for (const text of ["", "{}", " [1]", "t", `{"title":"${"é".repeat(500)}\ud83d\ude00"}`]) {
        const { encode, pack, unpack, decode, copierOf } = packing(settings);
        const value = new StoredText(text);
        const content = unpack(await pack(encode(value)));
        expect(decode(content)).toEqual(value);
        expect(copierOf(content)?.(value)).toBe(value);
      }
  });

  it("is stored without escapes, and is no value of a codec", async () => {
    const { encode, pack, unpack } = packing();
    const text = '{"a":"b"}';
    expect((await pack(encode(new StoredText(text)))).toString("latin1").endsWith(text)).toBe(true);
    expect(unpack(await pack(encode(text)))).toBe(`${" "}${JSON.stringify(text)}`);
  });

  it("that is damaged or cut off is rejected as unreadable", async () => {
    for (const settings of [{}, { compressAboveBytes: 1 }]) {
      const { pack, unpack } = packing(settings);
      const packed = await pack(new StoredText("x".repeat(100)));
      const damaged = Buffer.from(packed);
      damaged.writeUInt8(damaged.readUInt8(damaged.length - 1) ^ 1, damaged.length - 1);
      for (const bytes of [damaged, packed.subarray(0, -1), packed.subarray(0, 8)])
        expect(() => unpack(bytes)).toThrow(Unreadable);
    }
  });

  it("counts in bytes against maxValueBytes", async () => {
    const { excessBytes, pack, unpack } = packing({ maxValueBytes: 10 });
    expect(excessBytes(new StoredText("é".repeat(5)))).toBeUndefined();
    expect(excessBytes(new StoredText("é".repeat(6)))).toBe(12);
    const packed = await pack(new StoredText("é".repeat(6)));
    expect(() => unpack(packed)).toThrow("larger than `storage.maxValueBytes` in this process");
  });
});

describe("the size of a value", () => {
  it("is measured in bytes of its encoded form", () => {
    const { excessBytes } = packing({ maxValueBytes: 10 });
    expect(excessBytes("x".repeat(10))).toBeUndefined();
    expect(excessBytes("é".repeat(5))).toBeUndefined();
    expect(excessBytes("é".repeat(6))).toBe(12);
    expect(excessBytes(new Uint8Array(10))).toBeUndefined();
    expect(excessBytes(new Uint8Array(11))).toBe(11);
  });
});

describe("the bytes of an entry", () => {
  it("are unchanged without encryption, and rejected if another process has encrypted them", () => {
    const bytes = Buffer.from("body");
    const sealed = packing({ encryption: { keys: [{ id: "a", key: Buffer.alloc(32) }] } }).seal(bytes, "key");
    expect(packing().seal(bytes, "key")).toBe(bytes);
    expect(packing().unseal(bytes, "key")).toBe(bytes);
    expect(() => packing().unseal(sealed, "key")).toThrow(
      "it is encrypted, but this process has no `encryption` option",
    );
  });
});
