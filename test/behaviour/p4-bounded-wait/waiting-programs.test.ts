import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { compiledPath } from "../../support/programs.js";
import { shared } from "../../support/shared-servers.js";
import { sqliteFolder } from "../../support/sqlite-files.js";

/** Returns how to run a program that waits, with a file of its own. */
async function programs() {
  const { path, remove } = sqliteFolder();
  onTestFinished(remove);
  const file = await compiledPath("test/support/waiting-process.ts");
  const base = { ...process.env, SQLITE_PATH: path, SQLITE_MODULE: await shared("sqlite") };
  const envOf = (waitsFor: string) => ({ env: { ...base, WAITS_FOR: waitsFor } });
  return {
    start: (waitsFor: string): ChildProcess => spawn(process.execPath, [file], envOf(waitsFor)),
    outputOf: async (waitsFor: string): Promise<string> =>
      (await promisify(execFile)(process.execPath, [file], envOf(waitsFor))).stdout,
  };
}

describe("a program that nothing else keeps alive does not end while it waits for", () => {
  it.each([
    ["a load that never ends", "got CachedError\n"],
    ["a store that never answers", "got 7\n"],
  ])("%s", async (waitsFor, output) => {
    const { outputOf } = await programs();
    expect(await outputOf(waitsFor)).toBe(output);
  });

  it("the load of another process, which was killed", async () => {
    const { start, outputOf } = await programs();
    const holder = start("the end of the test");
    onTestFinished(() => void holder.kill("SIGKILL"));
    await once(holder.stdout as NodeJS.ReadableStream, "data");
    holder.kill("SIGKILL");
    expect(await outputOf("the load of another process")).toBe("got 7\n");
  });
});
