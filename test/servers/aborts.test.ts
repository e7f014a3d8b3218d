import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { acceptsThisGraphql } from "../support/graphql-17.js";
import { startProgram } from "../support/programs.js";
import { until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { startUpstream, type Upstream } from "../support/upstream-server.js";

interface Answer {
  readonly data?: Readonly<Record<string, unknown>> | null;
  readonly errors?: readonly { readonly message: string }[];
}

/** A client of one server. `hangUp` closes its connection. */
interface Client {
  readonly answer: Promise<Answer>;
  hangUp(): Promise<void>;
}

function ask(url: string, query: string): Client {
  const controller = new AbortController();
  const answer = fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ query }),
    signal: controller.signal,
  }).then((response) => response.json() as Promise<Answer>);
  return {
    answer,
    async hangUp() {
      controller.abort();
      await answer.catch(() => undefined);
    },
  };
}

const servers = ["apollo", "yoga", "mercurius"].filter(acceptsThisGraphql);

describe.each(servers)("clients of two processes of %s on one Redis", (server) => {
  const children: ChildProcess[] = [];
  let upstream: Upstream;
  let urls: readonly string[];

  beforeAll(async () => {
    upstream = await startUpstream();
    const redis = await sharedServer("redisStandalone");
    const env = {
      SERVER: server,
      REDIS_PORT: String(redis.port),
      PREFIX: `aborts-${randomUUID()}`,
      UPSTREAM: upstream.url,
    };
    children.push(...(await Promise.all([0, 1].map(() => startProgram("aborting-process", env)))));
    urls = await Promise.all(children.map(async (child) => (await once(child, "message"))[0] as string));
  }, 60_000);

  afterAll(async () => {
    for (const child of children) child.kill("SIGKILL");
    await upstream.close();
  });

  /** Asks for `field(id)`, `count` times in each process. */
  const askAll = (field: string, id: number, count: number): Client[] =>
    urls.flatMap((url) => Array.from({ length: count }, () => ask(url, `{ ${field}(id: ${id}) }`)));

  const valuesOf = (clients: readonly Client[]): Promise<readonly Answer[]> =>
    Promise.all(clients.map(({ answer }) => answer));

  it("never get an error because another client has hung up, though loads pass its signal on", async () => {
    for (let id = 0; id < 10; id++) {
      const path = `/careless/${id}`;
      const aborter = ask(urls[id % 2] as string, `{ careless(id: ${id}) }`);
      await until("the load runs", () => upstream.requests(path) === 1);
      const innocents = askAll("careless", id, 10);
      const others = askAll("careless", id, 2);
      await aborter.hangUp();
      await until("the load is repeated", () => upstream.requests(path) === 2);
      for (const other of others) await other.hangUp();
      upstream.release(path);
      const answers = await valuesOf(innocents);
      expect(answers).toEqual(Array(20).fill({ data: { careless: expect.any(Number) } }));
      expect(upstream.requests(path)).toBeLessThanOrEqual(2 + others.length);
    }
  });

  it("share one load that goes on when the client it was begun for hangs up, if it has its own signal", async () => {
    upstream.release("/careless/0");
    const readStored = (url: string): Promise<Answer> => ask(url, "{ careless(id: 0) }").answer;
    await Promise.all(urls.map(readStored));
    for (let id = 0; id < 5; id++) {
      const path = `/careful/${id}`;
      const url = urls[id % 2] as string;
      const aborter = ask(url, `{ careful(id: ${id}) }`);
      await until("the load runs", () => upstream.requests(path) === 1);
      const sharer = ask(url, `{ careful(id: ${id}) }`);
      // Answered by the same process after reads of Redis, so that the read of the request before has
      // ended, and has shown the load.
      for (let turn = 0; turn < 5; turn++) await readStored(url);
      await aborter.hangUp();
      const innocents = askAll("careful", id, 10);
      await ask(url, "{ __typename }").answer;
      upstream.release(path);
      expect(await valuesOf([sharer, ...innocents])).toEqual(Array(21).fill({ data: { careful: 1 } }));
      expect(upstream.requests(path)).toBe(1);
      expect(upstream.hangUps(path)).toBe(0);
    }
  });

  it("end the load, and its request to the source, when all of them have hung up", async () => {
    const path = "/careful/100";
    const aborter = ask(urls[0] as string, "{ careful(id: 100) }");
    await until("the load runs", () => upstream.requests(path) === 1);
    await aborter.hangUp();
    await until("the source is no longer asked", () => upstream.hangUps(path) === 1);
    upstream.release(path);
    expect(await valuesOf(askAll("careful", 100, 1))).toEqual(Array(2).fill({ data: { careful: 2 } }));
    expect(upstream.requests(path)).toBe(2);
  });
});
