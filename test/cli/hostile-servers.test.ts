import { createServer, type IncomingHttpHeaders, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { runCli } from "../support/cli-terminal.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(handler: RequestListener): Promise<string> {
  const server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`;
}

/** What a terminal obeys, in 7 and in 8 bits, what reverses text, and a line of its own. */
const POISON = "\u001b[2Jx\u0007\u009b31my\u0085\u202Ez\u2028\nend";
/** In JSON, line breaks between the properties of an answer are its own. */
const CONTROLS = /[^\P{Cc}\n]|[\p{Cf}\p{Zl}\p{Zp}]/u;

const process = { id: POISON, isThis: true, host: POISON, pid: 1, version: POISON, isAlive: false, missing: POISON };
const stats = {
  reads: 1,
  hit: 1,
  stale: 0,
  staleIfError: 0,
  loads: 0,
  failedLoads: 0,
  hitRatio: 1,
  loadMs: { p90Ms: 1 },
};
const at = "2026-11-26T00:00:00.000Z";
const ANSWER = {
  cacheInspection: {
    fields: [
      {
        coordinate: POISON,
        stats,
        mode: POISON,
        maxAge: 1,
        scope: POISON,
        policy: { key: [POISON], tags: [POISON] },
        observed: null,
      },
    ],
    hotKeys: {
      keys: [
        { coordinate: POISON, digest: POISON, reads: 1, args: { [POISON]: POISON }, source: { a: POISON }, id: POISON },
      ],
      maxError: 0,
    },
    modes: [{ coordinate: POISON, mode: POISON, setAt: POISON, setBy: POISON }],
    processes: [process],
    entry: {
      ...{ state: POISON, negative: false, ageMs: 1, freshForMs: 1, loadMs: 1, valueBytes: 1, leaseForMs: null },
      ...{
        outdated: false,
        stale: false,
        use: POISON,
        explanation: POISON,
        servableForMs: 1,
        digest: POISON,
        name: POISON,
      },
      lease: { endsInMs: 1, process },
      tags: { static: [POISON], resultCount: 1 },
      invalidation: { at: POISON, via: POISON, mutation: POISON, process },
    },
    events: [
      {
        process: POISON,
        name: POISON,
        at,
        firstAt: at,
        count: 1,
        coordinate: POISON,
        node: POISON,
        detail: POISON,
        error: POISON,
      },
    ],
    invalidations: {
      items: [
        {
          id: POISON,
          at,
          kind: POISON,
          via: POISON,
          mutation: POISON,
          isConfirmed: true,
          isClear: false,
          coordinates: [POISON],
          nameCount: 1,
          process,
        },
      ],
    },
  },
  cacheInvalidateTags: true,
  cacheSetMode: [{ coordinate: POISON, mode: POISON, setAt: POISON, setBy: POISON }],
};

const COMMANDS: readonly (readonly string[])[] = [
  ["fields"],
  ["top", "--once"],
  ["entry", `Query.${POISON}`, "--args", "{}"],
  ["mode"],
  ["mode", POISON, "off"],
  ["watch", "--once"],
  ["invalidate", "--tag", `Movie:${POISON}`],
];

describe.each([[[]], [["--json"]]])("the command line with the options %j", (options) => {
  it.each(COMMANDS.map((command) => [command[0], command] as const))(
    "prints no control character of a server: %s",
    async (_, command) => {
      const url = await serve(
        (_request, response) =>
          void response.setHeader("content-type", "application/json").end(JSON.stringify({ data: ANSWER })),
      );
      const { code, out, err } = await runCli([...command, ...options, "--endpoint", url]);
      expect({ code, err }).toMatchObject({ code: 0 });
      expect(out).not.toMatch(CONTROLS);
      expect(out).toContain("end");
      if (options.length === 0) return;
      // watch prints an object a line.
      const parsed = command[0] === "watch" ? out.split("\n").map((line) => JSON.parse(line)) : JSON.parse(out);
      expect(JSON.stringify(parsed)).toContain(command[0] === "invalidate" ? "tags" : "\\u001b[2Jx");
    },
  );

  it.each(COMMANDS.map((command) => [command[0], command] as const))(
    "prints no control character of an error: %s",
    async (_, command) => {
      const errors = [{ message: POISON, extensions: { code: POISON } }];
      const url = await serve(
        (_request, response) =>
          void response.setHeader("content-type", "application/json").end(JSON.stringify({ errors })),
      );
      const { code, out, err } = await runCli([...command, ...options, "--endpoint", url]);
      expect(code).toBe(2);
      for (const text of [out, err]) expect(text).not.toMatch(CONTROLS);
      expect(err).toContain("end");
    },
  );

  it.each([
    ["another host", (other: string) => other],
    ["another path of the same host", (_other: string) => "/elsewhere"],
  ])("follows no redirect to %s, and sends no header there", async (_, place) => {
    const received: IncomingHttpHeaders[] = [];
    const other = await serve((request, response) => {
      received.push(request.headers);
      response.end("{}");
    });
    const url = await serve((request, response) => {
      if (request.url !== "/graphql") received.push(request.headers);
      response.writeHead(307, { location: place(other) }).end();
    });
    const { code, err } = await runCli(["mode", ...options, "--endpoint", url, "--header", "x-admin-token: secret"]);
    expect(code).toBe(2);
    expect(err.replaceAll(/\s+/g, " ")).toContain(
      "redirects to another address, where no headers are sent; pass the final URL",
    );
    expect(received).toEqual([]);
  });
});
