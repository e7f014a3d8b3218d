import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { expect, onTestFinished } from "vitest";
import { ROOT } from "../project/source.js";
import { compiledPath } from "./programs.js";
import { sharedServer } from "./shared-servers.js";

/** One running process of an example. */
export interface ExampleProcess {
  /** Sends a query over HTTP and returns the data of the response. `headers`: those of the caller. */
  ask(query: string, variables?: Record<string, unknown>, headers?: Record<string, string>): Promise<unknown>;
  /** Returns what the process has loaded since the previous call. */
  loads(): string[];
  /** Sends SIGTERM and resolves to the exit code, or to the signal if that has ended the process. */
  stop(): Promise<unknown>;
}

/**
 * Starts an example twice, as two operating system processes on one Redis, until the current test has finished.
 * An example prints `ready <url>` once it listens, and `loads <what>` whenever it loads from its source.
 */
export async function twoProcesses(program: string): Promise<readonly [ExampleProcess, ExampleProcess]> {
  const prefix = `example-${randomUUID()}`;
  return Promise.all([start(program, prefix), start(program, prefix)]);
}

async function start(program: string, prefix: string): Promise<ExampleProcess> {
  const { host, port } = await sharedServer("redisStandalone");
  const env = {
    ...process.env,
    PORT: "0",
    PREFIX: prefix,
    REDIS_URL: `redis://${host}:${port}`,
  };
  const child = spawn(process.execPath, [await compiledPath(program)], {
    cwd: ROOT,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const loads: string[] = [];
  const url = await readyUrl(child, (what) => loads.push(what));
  return {
    ask: async (query, variables = {}, own = {}) => {
      const headers = { "content-type": "application/json", ...own };
      const response = await fetch(url, { method: "POST", headers, body: JSON.stringify({ query, variables }) });
      const { data, errors } = (await response.json()) as { data: unknown; errors?: unknown };
      expect(errors).toBeUndefined();
      return data;
    },
    loads: () => loads.splice(0),
    async stop() {
      const exit = once(child, "exit");
      child.kill("SIGTERM");
      const [code, signal] = (await exit) as [number | null, string | null];
      return code ?? signal;
    },
  };
}

function readyUrl(child: ChildProcess, onLoad: (what: string) => void): Promise<string> {
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error("the example process has no stdout or stderr");
  let errorOutput = "";
  stderr.on("data", (text) => {
    errorOutput += String(text);
  });
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`the example exited with code ${code}: ${errorOutput}`)));
    createInterface({ input: stdout }).on("line", (line) => {
      const [word, rest = ""] = line.split(/ (.*)/);
      if (word === "ready") resolve(rest);
      if (word === "loads") onLoad(rest);
    });
  });
}
