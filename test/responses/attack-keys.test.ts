import { describe, expect, it } from "vitest";
import { SERVERS as EDGE_SERVERS, openSite as openEdge } from "../servers/edge-site.js";
import { openSite, SERVERS } from "./site.js";

interface Told {
  readonly user?: string;
  readonly session?: { readonly locale: string; readonly name: string };
}

describe.each(SERVERS)("on %s", (server) => {
  it("a field whose key has one property of an object says nothing of the others of that object", async () => {
    const typeDefs = /* GraphQL */ `
      type Query {
        text: String @cached(maxAge: 60, key: ["$context.session.locale"]) @cacheControl(maxAge: 600)
        name: String @cacheControl(maxAge: 600)
      }
    `;
    const resolvers = {
      Query: {
        text: (_: unknown, __: unknown, { session }: Told) => session?.locale,
        name: (_: unknown, __: unknown, { session }: Told) => session?.name,
      },
    };
    const site = openSite({ typeDefs, resolvers, server });
    const ask = site.ask as (query: string, context: Told) => ReturnType<typeof site.ask>;
    for (const user of ["ann", "bob"])
      expect((await ask("{ text name }", { user, session: { locale: "de", name: user } })).data).toEqual({
        text: "de",
        name: user,
      });
  });
});

describe.each(EDGE_SERVERS)("at the edge, behind %s,", (server) => {
  it("a header that decides one property of an object says nothing of the others of that object", async () => {
    const typeDefs = "type Query { name: String @cacheControl(maxAge: 60) }";
    const resolvers = {
      Query: {
        name: (_: unknown, __: unknown, { locale }: { locale: { name: string } }) => String(locale?.name),
      },
    };
    const { ask } = await openEdge(server, typeDefs, resolvers, {
      edge: { contextHeaders: { "$context.locale.language": "Accept-Language" } },
    });
    expect((await ask("{ name }", { "accept-language": "de" })).cacheControl).not.toContain("public");
  });
});
