import { expect, it } from "vitest";
import { readContent, writeContent } from "../../../src/memcached/content.js";

it("a version of a tag is read as what it is, with any first byte and with or without a soft part", () => {
  const dropAt = 1_000;
  for (let first = 0; first < 256; first++) {
    for (const bytes of [16, 32]) {
      const version = String.fromCharCode(first, 1).padEnd(bytes, "v");
      const content = { kind: "version", version, dropAt } as const;
      expect(readContent(writeContent(content), 0)).toEqual(content);
    }
  }
});
