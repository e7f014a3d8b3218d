import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

it("a store restores the fast form of the methods of strings, which ioredis takes from all code of the process", async () => {
  const program = fileURLToPath(new URL("../../support/string-methods-process.ts", import.meta.url));
  const argv = ["--allow-natives-syntax", "--import", "tsx", program];
  const { stdout } = await promisify(execFile)(process.execPath, argv);
  // If the first one is true, ioredis needs `restoreStringMethods` no more.
  expect(JSON.parse(stdout)).toEqual([false, true]);
});
