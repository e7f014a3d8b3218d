import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { settle } from "@graphql-cached/testing";
import { cachedPlugin, stringifyResult } from "graphql-cached/apollo";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { describe, expect, it, onTestFinished } from "vitest";
import { openSite } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { movie: String @cached(maxAge: 60) @cacheControl(maxAge: 60) }
`;
type Kind = "Apollo Server" | "Apollo Server, as text" | "GraphQL Yoga";
type Headers = Readonly<Record<string, string>>;

/** `plugins`: of which one replaces what is sent by what is of the caller in the header `user`. */
async function serve(kind: Kind, { before = [], after = [] }: { before?: object[]; after?: object[] }) {
  const { cache, schema } = openSite({
    typeDefs,
    resolvers: { Query: { movie: () => "Ran" } },
    server: "cache.execute",
  });
  let url: string;
  if (kind === "GraphQL Yoga") {
    const yoga = createYoga({
      schema,
      logging: false,
      plugins: [...before, useCached(cache, { responses: true }), ...after] as never,
    });
    const server = createServer(yoga as never);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void (server.close(), server.closeAllConnections()));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`;
  } else {
    const apollo = new ApolloServer<object>({
      schema,
      csrfPrevention: false,
      plugins: [...before, cachedPlugin(cache as never, { responses: true }), ...after] as never,
      ...(kind === "Apollo Server" ? {} : { stringifyResult }),
    });
    ({ url } = await startStandaloneServer(apollo, {
      listen: { port: 0, host: "127.0.0.1" },
      context: async () => ({}),
    }));
    onTestFinished(() => apollo.stop());
  }
  return async (headers: Headers = {}) => {
    const all = { accept: "application/json", "content-type": "application/json", ...headers };
    const response = await fetch(`${url}?query=%7Bmovie%7D`, { headers: all });
    const text = await response.text();
    await settle();
    return { status: response.status, text, etag: response.headers.get("etag") };
  };
}

/** Returns the entity tag of the stored response, which nothing changes. */
async function tagOfHit(kind: Kind): Promise<string> {
  const ask = await serve(kind, {});
  for (let nth = 0; nth < 2; nth++) await ask();
  const { etag, text } = await ask();
  expect([etag, text]).toEqual([expect.stringContaining("W/"), expect.stringContaining("Ran")]);
  return etag as string;
}

type Sent = {
  request: { http: { headers: Map<string, string> } };
  response: { body: { singleResult: { data: { movie: string }; extensions?: object } } };
};
const apollo = (change: (sent: Sent["response"]["body"], movie: string) => void) => ({
  requestDidStart: async () => ({
    willSendResponse: async ({ request, response: { body } }: Sent) =>
      change(body, `of ${request.http.headers.get("user")}`),
  }),
});
const yoga = (change: (result: { data: { movie: string } }, set: (result: object) => void, movie: string) => void) => ({
  onResultProcess: ({
    request,
    result,
    setResult,
  }: {
    request: Request;
    result: never;
    setResult(result: object): void;
  }) => change(result, setResult, `of ${request.headers.get("user")}`),
});
const CHANGES: Readonly<Record<string, Readonly<Record<"apollo" | "yoga", object>>>> = {
  "another object of": {
    apollo: apollo(({ singleResult }, movie) => {
      singleResult.data = { movie };
    }),
    yoga: yoga((_, set, movie) => set({ data: { movie } })),
  },
  "the same object with other members of": {
    apollo: apollo(({ singleResult: { data } }, movie) => {
      data.movie = movie;
    }),
    yoga: yoga(({ data }, _, movie) => {
      data.movie = movie;
    }),
  },
  "extensions beside": {
    apollo: apollo(({ singleResult }, movie) => {
      singleResult.extensions = { movie };
    }),
    yoga: yoga((result, _, movie) => void Object.assign(result, { extensions: { movie } })),
  },
};

describe.each(["Apollo Server", "Apollo Server, as text", "GraphQL Yoga"] as const)("on %s", (kind) => {
  for (const [name, of] of Object.entries(CHANGES))
    it.each(["before", "after"])(
      `the entity tag of a response does not answer those for whom a plugin that comes %s makes ${name} its data`,
      async (place) => {
        const ask = await serve(kind, { [place]: [of[kind === "GraphQL Yoga" ? "yoga" : "apollo"]] });
        for (let nth = 0; nth < 3; nth++) expect((await ask({ user: "ann" })).text).toContain("of ann");
        const { etag } = await ask({ user: "ann" });
        // Express, below Apollo Server 4, adds a tag of the bytes that it sends.
        expect(etag).not.toBe(await tagOfHit(kind));
        const answer = await ask({ user: "bob", "if-none-match": etag ?? "*" });
        expect([answer.status, answer.text.includes("of bob")]).toEqual([200, true]);
      },
    );
});

it("on Apollo Server, a response that a plugin changes when another one has set the content type is not answered with 304", async () => {
  const changing = {
    requestDidStart: async () => ({
      async willSendResponse({ request, response: { body } }: Sent) {
        await new Promise((resolve) => setImmediate(resolve));
        body.singleResult.data = { movie: `of ${request.http.headers.get("user")}` };
      },
    }),
  };
  const typing = {
    requestDidStart: async () => ({
      async willSendResponse({ response: { http } }: { response: { http: { headers: Map<string, string> } } }) {
        await Promise.resolve();
        http.headers.set("content-type", "application/json");
      },
    }),
  };
  const ask = await serve("Apollo Server", { after: [typing, changing] });
  for (let nth = 0; nth < 3; nth++) await ask({ user: "ann" });
  const { status, text } = await ask({ user: "bob", "if-none-match": "*" });
  expect([status, text]).toEqual([200, expect.stringContaining("of bob")]);
});
