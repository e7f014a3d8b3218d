import { describe, expect, it } from "vitest";
import { type Headers, type Kind, serve as serveSite } from "./http.js";
import type { Context } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"]) @cacheControl(maxAge: 60)
    me: String @cached(maxAge: 60, scope: PRIVATE) @cacheControl(maxAge: 60, scope: PRIVATE)
  }
  type Movie { title: String }
`;
const QUERY = "{ movie(id: 1) { title } }";
const KINDS = ["Apollo Server", "Apollo Server, as text", "GraphQL Yoga"] as const;

/** Serves on HTTP, with further plugins. Returns a function that asks with GET. */
async function serve(kind: Kind, plugins: { readonly before?: object[]; readonly after?: object[] } = {}) {
  const titles = new Map<string, string>();
  const resolvers = {
    Query: {
      movie: (_: unknown, { id }: { id: string }) => ({ title: titles.get(id) ?? `Movie ${id}` }),
      me: (_: unknown, __: unknown, { user }: Context) => user,
    },
  };
  const context = ({ user }: Headers) => (user === undefined ? {} : { user });
  return { ...(await serveSite(kind, { typeDefs, resolvers, responses: true, context, ...plugins })), titles };
}

describe.each(KINDS)("the entity tag of a stored response on %s", (kind) => {
  it("answers a client that has the response with 304 and no body", async () => {
    const { ask } = await serve(kind);
    await ask(QUERY);
    const hit = await ask(QUERY);
    expect(hit).toMatchObject({ status: 200, etag: expect.stringMatching(/^W\/"[\w-]{22}"$/) });
    for (const known of [hit.etag, `"other", ${hit.etag}`, (hit.etag as string).slice(2), "*"])
      expect(await ask(QUERY, { "if-none-match": known as string })).toMatchObject({
        status: 304,
        etag: hit.etag,
        text: "",
      });
    expect(await ask(QUERY, { "if-none-match": '"other"' })).toMatchObject({ status: 200, text: hit.text });
  });

  it("changes with the response", async () => {
    const { ask, cache, titles } = await serve(kind);
    await ask(QUERY);
    const { etag } = await ask(QUERY);
    titles.set("1", "Renamed");
    await cache.invalidateTags(["Movie:1"]);
    const known = { "if-none-match": etag as string };
    const answers = [await ask(QUERY, known), await ask(QUERY, known)];
    for (const answer of answers)
      expect(answer).toMatchObject({ status: 200, text: expect.stringContaining("Renamed") });
    expect(answers[1]?.etag).not.toBe(etag);
  });

  it("of one caller does not answer another", async () => {
    const { ask } = await serve(kind);
    for (const user of ["ann", "ann", "bob", "bob"]) await ask("{ me }", { user });
    const { etag } = await ask("{ me }", { user: "ann" });
    expect(etag).not.toBeNull();
    expect(await ask("{ me }", { user: "bob", "if-none-match": etag as string })).toMatchObject({
      status: 200,
      text: expect.stringContaining("bob"),
    });
  });

  it("is not sent with POST, nor with what was executed", async () => {
    const { ask } = await serve(kind);
    for (const method of ["GET", "POST"])
      expect(await ask(QUERY, { "if-none-match": "*" }, method)).toMatchObject({
        status: 200,
        text: expect.stringContaining("Movie 1"),
      });
  });
});

interface Result {
  data: { movie: unknown };
  extensions?: object;
}
interface Sent {
  readonly request: { http: { headers: Map<string, string> } };
  readonly response: { body: { singleResult: Result }; http: { headers: Map<string, string> } };
}
const apollo = (change: (body: { singleResult: Result }, movie: string) => unknown) => ({
  requestDidStart: async () => ({
    willSendResponse: async ({ request, response: { body } }: Sent) =>
      void change(body, `of ${request.http.headers.get("user")}`),
  }),
});
const yoga = (change: (given: { result: Result; setResult(result: object): void }, movie: string) => unknown) => ({
  onResultProcess: (given: { request: Request; result: Result; setResult(result: object): void }) =>
    void change(given, `of ${given.request.headers.get("user")}`),
});
/** Plugins that replace what is sent by what is of the caller in the header `user`. */
const CHANGES: readonly (readonly [what: string, ofApollo: object, ofYoga: object])[] = [
  [
    "another object of",
    apollo(({ singleResult }, movie) => (singleResult.data = { movie })),
    yoga(({ setResult }, movie) => setResult({ data: { movie } })),
  ],
  [
    "the same object with other members of",
    apollo(({ singleResult: { data } }, movie) => (data.movie = movie)),
    yoga(({ result: { data } }, movie) => (data.movie = movie)),
  ],
  [
    "extensions beside",
    apollo(({ singleResult }, movie) => (singleResult.extensions = { movie })),
    yoga(({ result }, movie) => (result.extensions = { movie })),
  ],
  [
    "another result instead of",
    apollo((body, movie) => (body.singleResult = { data: { movie } })),
    {
      onExecute: ({ args: { contextValue } }: { args: { contextValue: Context } }) => ({
        onExecuteDone: ({ setResult }: { setResult(result: object): void }) =>
          setResult({ data: { movie: `of ${contextValue.user}` } }),
      }),
    },
  ],
];

for (const kind of KINDS)
  for (const place of ["before", "after"])
    it.each(CHANGES)(
      `the entity tag of a response on ${kind} does not answer those for whom a plugin that comes ${place} makes %s its data`,
      async (_what, ofApollo, ofYoga) => {
        const { ask } = await serve(kind, { [place]: [kind === "GraphQL Yoga" ? ofYoga : ofApollo] });
        for (let nth = 0; nth < 3; nth++) expect((await ask(QUERY, { user: "ann" })).text).toContain("of ann");
        const { etag } = await ask(QUERY, { user: "ann" });
        // That of the stored response, which nothing changes.
        const unchanged = await serve(kind);
        for (let nth = 0; nth < 2; nth++) await unchanged.ask(QUERY, { user: "ann" });
        const hit = await unchanged.ask(QUERY, { user: "ann" });
        expect([hit.etag, hit.text]).toEqual([expect.stringContaining("W/"), expect.stringContaining("Movie 1")]);
        // Express, below Apollo Server 4, adds a tag of the bytes that it sends.
        expect(etag).not.toBe(hit.etag);
        expect(await ask(QUERY, { user: "bob", "if-none-match": etag ?? "*" })).toMatchObject({
          status: 200,
          text: expect.stringContaining("of bob"),
        });
      },
    );

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
      async willSendResponse({ response: { http } }: Sent) {
        await Promise.resolve();
        http.headers.set("content-type", "application/json");
      },
    }),
  };
  const { ask } = await serve("Apollo Server", { after: [typing, changing] });
  for (let nth = 0; nth < 3; nth++) await ask(QUERY, { user: "ann" });
  expect(await ask(QUERY, { user: "bob", "if-none-match": "*" })).toMatchObject({
    status: 200,
    text: expect.stringContaining("of bob"),
  });
});
