import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { inspectorHandler } from "@graphql-cached/inspector";
import { type Cache, createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { PAGE_HEADERS, type Reply } from "../../../test/support/inspector-calls.js";
import { listen, MOUNTS } from "../../../test/support/mounts.js";
import { afterCaches } from "../../../test/support/world.js";

function open(): Cache {
  const cache = createCache({ defaultScope: "PUBLIC" });
  afterCaches(() => cache.close());
  return cache;
}

const question = JSON.stringify({ operation: "policies" });
const ask = async (url: string, headers: Readonly<Record<string, string>> = {}): Promise<Reply> => {
  const response = await fetch(url, { method: "POST", headers: { ...PAGE_HEADERS, ...headers }, body: question });
  return (await response.json()) as Reply;
};

describe.each(Object.entries(MOUNTS))("the inspector under %s", (_name, start) => {
  it("serves the page and answers its questions for the callers that allow admits", async () => {
    const seen: unknown[] = [];
    const allow = (request: Request | IncomingMessage): boolean => {
      const { headers } = request;
      const token = headers instanceof Headers ? headers.get("authorization") : (headers as { get?: unknown }).get;
      const given = typeof token === "function" ? token.call(headers, "authorization") : token;
      seen.push(given ?? (headers as IncomingMessage["headers"]).authorization);
      return seen.at(-1) === "operator";
    };
    const url = await start(inspectorHandler({ cache: open(), allow }));
    const page = await fetch(url);
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(await page.text()).toContain("<title>graphql-cached inspector</title>");
    const head = await fetch(url, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect((await ask(url, { authorization: "operator" })).data?.policies).toEqual([]);
    expect((await ask(url)).error?.code).toBe("CACHED_INSPECTION_DENIED");
    expect((await fetch(url, { method: "PUT", headers: PAGE_HEADERS, body: question })).status).toBe(405);
  });

  it("refuses questions of another site", async () => {
    const url = await start(inspectorHandler({ cache: open(), allow: () => true }));
    const other = { method: "POST", body: question };
    const headers = { ...PAGE_HEADERS, "sec-fetch-site": "cross-site" };
    expect((await fetch(url, { ...other, headers })).status).toBe(403);
    expect((await fetch(url, { ...other, headers: { ...PAGE_HEADERS, origin: "http://attacker.test" } })).status).toBe(
      403,
    );
    expect((await fetch(url, { ...other, headers: { ...PAGE_HEADERS, origin: new URL(url).origin } })).status).toBe(
      200,
    );
  });
});

it("refuses a body that is too large, and survives a caller that hangs up", async () => {
  const url = await listen(createServer(inspectorHandler({ cache: open(), allow: () => true })));
  const large = JSON.stringify({ operation: "policies", variables: { x: "x".repeat(100_000) } });
  const refused = await fetch(url, { method: "POST", headers: PAGE_HEADERS, body: large }).then(
    ({ status }) => status,
    () => "connection closed",
  );
  expect([413, "connection closed"]).toContain(refused);
  await new Promise<void>((resolve) => {
    const half = httpRequest(url, { method: "POST", headers: { ...PAGE_HEADERS, "content-length": "100" } });
    half.on("error", () => resolve());
    half.write("{", () => half.destroy(new Error("hung up")));
  });
  expect((await ask(url)).data?.policies).toBeDefined();
});

it("says that a middleware has taken the body", async () => {
  const inspector = inspectorHandler({ cache: open(), allow: () => true });
  const taking = createServer(async (request, response) => {
    await text(request);
    await inspector(request, response);
  });
  expect((await ask(await listen(taking))).error?.message).toMatch(/a middleware has read before/);
});
