import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { expect, it } from "vitest";
import { decideLast, decideWhenSent } from "../../../src/servers/edge/final-headers.js";

const KEPT = "max-age=0, s-maxage=60, public";
const WITH_COOKIE = { getHeader: (name: string) => (name === "Set-Cookie" ? ["a=1"] : undefined) };
const JSON_TYPE = "application/json; charset=utf-8";
const HEADERS = { "content-type": JSON_TYPE, "cache-control": KEPT, "cache-tag": "a" };

it.each([
  ["a response to GET stays what it is", {}, {}, KEPT],
  ["a response to HEAD stays what it is", { method: "HEAD" }, {}, KEPT],
  ["that what a CDN has is still valid stays what it is", { status: 304 }, { "content-type": "" }, KEPT],
  ["what is not modified, with a cookie, is private", { status: 304 }, { "set-cookie": "a=1" }, "private, no-store"],
  ["a cookie in the response of Node.js makes it private", { context: { res: WITH_COOKIE } }, {}, "private, no-store"],
  ["a cookie in the reply of Fastify makes it private", { context: { reply: WITH_COOKIE } }, {}, "private, no-store"],
  ["a context with another response changes nothing", { context: { res: {} } }, {}, KEPT],
  ["a response to POST is private", { method: "POST" }, {}, "private, no-store"],
  ["an error of another layer is private", { status: 503 }, {}, "private, no-store"],
  ["a page is private", {}, { "content-type": "text/html" }, "private, no-store"],
  ["a response without a Cache-Control is kept by nobody", {}, { "cache-control": "" }, "no-store"],
  ["a private response stays what it is", {}, { "cache-control": "max-age=5, Private" }, "max-age=5, Private"],
  ["a word that only contains private decides nothing", {}, { "cache-control": "x-private=1" }, "x-private=1"],
] as const)("%s", (_what, answered, changed, expected) => {
  const given = { "content-type": JSON_TYPE, "cache-control": KEPT, "cache-tag": "a", xkey: "a", ...changed };
  const headers = new Headers(Object.entries(given).filter(([, value]) => value !== ""));
  decideLast(headers, { method: "GET", accept: undefined, status: undefined, context: undefined, ...answered });
  const isKept = !/private(?!=)|no-store/i.test(expected);
  expect([headers.get("cache-control"), headers.get("cache-tag"), headers.get("xkey")]).toEqual([
    expected,
    ...(isKept ? ["a", "a"] : [null, null]),
  ]);
});

it("names what other layers vary by, which the server would replace, once", () => {
  const headers = new Headers({ "content-type": JSON_TYPE, "cache-control": KEPT, vary: "Accept" });
  const context = { res: { getHeader: (name: string) => (name === "Vary" ? "Origin" : undefined) } };
  for (const _ of [1, 2]) decideLast(headers, { method: "GET", accept: "*/*", status: 200, context });
  expect(headers.get("vary")).toBe("Accept, Origin");
});

it.each([
  [undefined, true],
  ["", true],
  ["*/*", true],
  ["application/*;q=0.1", true],
  ["text/html, APPLICATION/JSON", true],
  ["application/json;q=0, */*", false],
  ["application/json; q=0.0", false],
  ["application/json;q=0.05", true],
  ["application/*;q=0, */*", false],
  ["application/graphql-response+json", false],
  ["application/jsonp", false],
])("a client that accepts %s gets JSON that a CDN may keep: %s", (accept, isKept) => {
  const headers = new Headers({ "content-type": "application/graphql-response+json", "cache-control": KEPT });
  decideLast(headers, { method: "GET", accept, status: 200, context: undefined });
  expect([headers.get("cache-control"), headers.get("content-type")]).toEqual(
    isKept ? [KEPT, JSON_TYPE] : ["private, no-store", "application/graphql-response+json"],
  );
});

it.each<readonly [what: string, write: (res: ServerResponse) => unknown, expected: string, tags: string | undefined]>([
  ["all that is passed to writeHead", (res) => res.writeHead(200, HEADERS), KEPT, "a"],
  [
    "a cookie beside it",
    (res) => res.setHeader("Set-Cookie", "a=1").writeHead(200, HEADERS),
    "private, no-store",
    undefined,
  ],
  ["a cookie in it", (res) => res.writeHead(200, { "set-cookie": "a=1", ...HEADERS }), "private, no-store", undefined],
  ["its status", (res) => res.writeHead(503, "Busy", HEADERS), "private, no-store", undefined],
  [
    "headers that are sent with the body",
    (res) => res.setHeaders(new Map(Object.entries(HEADERS))).end("{}"),
    KEPT,
    "a",
  ],
])("decides about %s", (_what, write, expected, tags) => {
  for (const nameOf of ["res", "reply"]) {
    const res = new ServerResponse(new IncomingMessage(new Socket()));
    const context = nameOf === "res" ? { res } : { reply: { raw: res } };
    decideWhenSent(context, { method: "GET", accept: "*/*" });
    write(res);
    expect([res.headersSent, res.getHeader("cache-control"), res.getHeader("cache-tag")]).toEqual([
      true,
      expected,
      tags,
    ]);
  }
});

it.each([undefined, {}, { res: null }, { res: "a response" }, { reply: { raw: { setHeader: () => undefined } } }])(
  "leaves a context without the response of Node.js alone: %j",
  (context) => {
    const before = JSON.stringify(context);
    decideWhenSent(context, { method: "GET", accept: "*/*" });
    expect(JSON.stringify(context)).toBe(before);
  },
);

it("keeps what other layers have in Vary beside a header whose name ends like it", () => {
  const headers = new Headers({ "cache-control": KEPT, vary: "Accept, X-Origin", "content-type": JSON_TYPE });
  const res = { getHeader: (name: string) => (name === "Vary" ? "Origin" : undefined) };
  decideLast(headers, { method: "GET", accept: undefined, status: 200, context: { res } });
  expect(headers.get("vary")?.split(", ")).toContain("Origin");
});
