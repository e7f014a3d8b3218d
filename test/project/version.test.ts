import { expect, it } from "vitest";
import { VERSION } from "../../src/core/base/version.js";
import { read } from "./source.js";

it("reports the version that package.json says", () => {
  expect(VERSION).toBe((JSON.parse(read("package.json")) as { version: string }).version);
});
