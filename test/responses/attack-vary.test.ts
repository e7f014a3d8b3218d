import { expect, it } from "vitest";
import { decideLast } from "../../src/servers/edge/final-headers.js";

it("what other layers have in Vary is kept beside a header whose name ends like it", () => {
  const headers = new Map([
    ["cache-control", "max-age=0, s-maxage=60, public"],
    ["vary", "Accept, X-Origin"],
    ["content-type", "application/json"],
  ]);
  const of = {
    get: (name: string) => headers.get(name.toLowerCase()),
    set: (name: string, value: string) => headers.set(name.toLowerCase(), value),
    delete: (name: string) => headers.delete(name.toLowerCase()),
  };
  const res = { getHeader: (name: string) => (name === "Vary" ? "Origin" : undefined) };
  decideLast(of, { method: "GET", accept: undefined, status: 200, context: { res } });
  expect(headers.get("vary")?.split(", ")).toContain("Origin");
});
