import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import { shared } from "./shared-servers.js";

/** Returns the path of the compiled form of a program, such as "src/tools/cli/bin.ts". */
export async function compiledPath(file: string): Promise<string> {
  const folder = await shared(file.startsWith("examples/") ? "compiledExamples" : "compiled");
  return join(folder, file.replace(/\.ts$/, ".js"));
}

/** Starts a program of `test/support`, such as "reader-process", or with its folder, with more environment variables. */
export async function startProgram(name: string, env: Readonly<Record<string, string>>): Promise<ChildProcess> {
  return fork(await compiledPath(name.includes("/") ? `${name}.ts` : `test/support/${name}.ts`), {
    env: { ...process.env, ...env },
  });
}
