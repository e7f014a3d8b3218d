/**
 * Prints the cost of each codec, compression and encryption for lists of films, as medians of interleaved
 * rounds, in microseconds. The films are those of the example: run `npm ci` in examples/ first. Run: npx tsx bench/codecs.ts
 */
import { readFileSync } from "node:fs";
import { brotliCompressSync, brotliDecompressSync, constants, deflateSync, inflateSync } from "node:zlib";
import type { Codec } from "../src/core/codec/codec.js";
import { createEncryption } from "../src/core/codec/encryption.js";
import { jsonCodec } from "../src/core/codec/json-codec.js";
import { msgpackrCodec } from "../test/support/msgpackr-codec.js";
import { median } from "./statistics.js";

const ROUNDS = 200;
const films = JSON.parse(
  readFileSync(new URL("../examples/node_modules/vega-datasets/data/movies.json", import.meta.url), "utf8"),
) as unknown[];

interface Format {
  write(value: unknown): Uint8Array;
  read(bytes: Uint8Array): unknown;
}

const bytesOf = (codec: Codec, value: unknown): Buffer => Buffer.from(codec.encode(value) as string);
const msgpackr = msgpackrCodec();
const encryption = createEncryption({ keys: [{ id: "a", key: Buffer.alloc(32) }] });
const fastest = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };
/** Formats that start with `+` receive JSON text, so that they show the cost added to JSON. */
const FORMATS: Readonly<Record<string, Format>> = {
  JSON: {
    write: (value) => bytesOf(jsonCodec, value),
    read: (bytes) => jsonCodec.decode(Buffer.from(bytes).toString("utf8")),
  },
  msgpackr: { write: (value) => msgpackr.encode(value) as Uint8Array, read: (bytes) => msgpackr.decode(bytes) },
  "+ deflate 1": { write: (text) => deflateSync(text as Buffer, { level: 1 }), read: (bytes) => inflateSync(bytes) },
  "+ brotli 1": {
    write: (text) => brotliCompressSync(text as Buffer, fastest),
    read: (bytes) => brotliDecompressSync(bytes),
  },
  "+ AES-256-GCM": {
    write: (text) => encryption.seal(text as Buffer, "a"),
    read: (bytes) => encryption.unseal(bytes, "a"),
  },
};

const micros = (times: number[]): string => (median(times) * 1e3).toFixed(0);

console.log("| films | format | bytes | write | read |\n|--:|---|--:|--:|--:|");
for (const count of [1, 10, 100, 500]) {
  const value = films.slice(0, count);
  const text = bytesOf(jsonCodec, value);
  const measured = Object.entries(FORMATS).map(([name, format]) => ({
    name,
    format,
    write: [] as number[],
    read: [] as number[],
  }));
  for (let round = 0; round < ROUNDS; round++)
    for (const { name, format, write, read } of measured) {
      const startedAt = performance.now();
      const bytes = format.write(name.startsWith("+") ? text : value);
      const writtenAt = performance.now();
      format.read(bytes);
      write.push(writtenAt - startedAt);
      read.push(performance.now() - writtenAt);
    }
  for (const { name, format, write, read } of measured)
    console.log(
      `| ${count} | ${name} | ${format.write(name.startsWith("+") ? text : value).byteLength} | ${micros(write)} | ${micros(read)} |`,
    );
}
