import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { on } from "node:events";
import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { cleanups } from "../support/cleanups.js";
import { startProgram } from "../support/programs.js";
import { waitForMessage } from "../support/real-processes.js";
import { sharedServer } from "../support/shared-servers.js";

const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
afterAll(() => client.quit());

interface Seen {
  readonly isHTTPError: boolean;
  readonly headers: readonly (readonly [string, string])[];
}

/** Starts two processes, and returns what each sees of the 404 of one page: the first loads it, and both have more readers. */
async function readFromTwo(kind: "loader" | "field", env: Readonly<Record<string, string>>) {
  const prefix = `errors-${randomUUID()}`;
  const start = () => startProgram("failing-process", { PORT: String(client.options.port), PREFIX: prefix, ...env });
  const [first, second] = (await Promise.all([start(), start()])) as [ChildProcess, ChildProcess];
  cleanups.push(...[first, second].map((child) => () => child.kill("SIGKILL")));
  const lines: string[] = [];
  for (const child of [first, second]) child.on("message", ({ line }: { line?: string }) => line && lines.push(line));
  await Promise.all([first, second].map((child) => waitForMessage(child, "ready")));
  await client.rpush(`${prefix}:go:a:${second.pid}`, 1, 1, 1);
  const ask = async (child: ChildProcess, id: string, times: number): Promise<readonly Seen[]> => {
    child.send({ kind, id, times });
    for await (const [{ seen }] of on(child, "message")) if (seen !== undefined) return seen as Seen[];
    throw new Error("expected a report, but the process ended");
  };
  const loading = waitForMessage(first, "loading");
  const own = ask(first, "a", 3);
  await loading;
  const others = ask(second, "a", 3);
  await client.rpush(`${prefix}:go:a:${first.pid}`, 1, 1, 1);
  const waited = [await own, await others];
  const later = [await ask(first, "a", 2), await ask(second, "a", 2)];
  const loads = Number(await client.get(`${prefix}:loads:a`));
  await client.del(...[first, second].map(({ pid }) => `${prefix}:go:a:${pid}`));
  return { all: [...waited, ...later].flat(), loads, lines };
}

const NOT_FOUND = { isHTTPError: true, statusCode: 404, body: { error: "Page not found" }, code: "NOT_FOUND" };

describe.each(["loader", "field"] as const)("the 404 of a page, as code in two processes sees it (%s)", (kind) => {
  it("has its class, status, body and extensions for all readers, from one load, if its class is declared", async () => {
    const { all, loads, lines } = await readFromTwo(kind, { TYPES: "1" });
    for (const seen of all) expect(seen).toMatchObject(NOT_FOUND);
    expect(loads).toBe(1);
    expect(lines).toEqual([]);
    // Only the reader that has loaded the page gets its cookie.
    const cookies = all.flatMap(({ headers }) => headers.filter(([name]) => name === "set-cookie"));
    expect(cookies).toEqual([["set-cookie", "session=1"]]);
    expect(all.every(({ headers }) => headers.some(([name]) => name === "retry-after"))).toBe(true);
  }, 30_000);

  it("has all of that as well if its class is not declared: each process loads for itself, once, and the log says so", async () => {
    const { all, loads, lines } = await readFromTwo(kind, {});
    for (const seen of all) expect(seen).toMatchObject(NOT_FOUND);
    expect(loads).toBe(2);
    const coordinate = kind === "loader" ? "Page" : "Query.page";
    expect(lines).toEqual([
      `graphql-cached: \`${coordinate}\`: the error of a load is not shared with other processes, which load for themselves: expected an error of plain data, got an instance of HTTPError at \`error\`; declare its class in createCache({ types })`,
    ]);
    const cookies = all.flatMap(({ headers }) => headers.filter(([name]) => name === "set-cookie"));
    expect(cookies.map(([, value]) => value).sort()).toEqual(["session=1", "session=2"]);
  }, 30_000);
});
