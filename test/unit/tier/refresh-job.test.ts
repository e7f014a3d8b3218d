import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createPacking } from "../../../src/core/codec/packing.js";
import type { Key } from "../../../src/core/keys/key.js";
import { readJob, writeJob } from "../../../src/core/tier/lease/refresh-job.js";
import { PLAIN_PACKING } from "../../support/packing-settings.js";

const packing = createPacking({ ...PLAIN_PACKING, encryption: { keys: [{ id: "k", key: randomBytes(32) }] } });
const lease = { gen: "\u0000\u00ff".repeat(8), token: "t".repeat(16), grantedAt: 1_000, position: 7_000_000.5 };
const write = (input: unknown) =>
  writeJob({ key: { name: "name", coordinate: "Query.top" } as Key, input: () => input } as never, lease, packing);

describe("a refresh job", () => {
  it("is read as it was written, after it was sent as JSON", async () => {
    const job: unknown = JSON.parse(JSON.stringify(await write({ id: 1n })));
    expect(readJob(job, packing)).toEqual({ coordinate: "Query.top", key: "name", input: { id: 1n }, ...lease });
  });

  it("is refused in another format, or without a position of the invalidation clock", async () => {
    const job = await write({ id: 1 });
    for (const wrong of [{ format: 1 }, { grantedAt: "1000" }, { position: "7" }])
      expect(() => readJob({ ...job, ...wrong }, packing)).toThrow("expected a job that `loads.refreshQueue` received");
  });

  it("is refused with the encrypted value of its key, or the input of another key, as its input", async () => {
    const job = await write({ id: 1 });
    const value = packing.seal(await packing.pack(packing.encode({ id: 2 })), "name");
    for (const wrong of [{ input: Buffer.from(value).toString("base64") }, { key: "other" }])
      expect(() => readJob({ ...job, ...wrong }, packing)).toThrow("expected a job that `loads.refreshQueue` received");
  });
});
