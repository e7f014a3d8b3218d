import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { parse } from "graphql";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS, type ServerName, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page(slug: String): String @cacheControl(maxAge: 600)
    item: Item @cacheControl(maxAge: 600)
    items: [Item] @cacheControl(maxAge: 600)
    large(bytes: Int!): String @cacheControl(maxAge: 600)
    flaky: String @cacheControl(maxAge: 600)
  }
  type Item @cacheControl(maxAge: 600) { title: String broken: Int @cacheControl(maxAge: 600) }
`;

function open(server: ServerName, options: Partial<SiteOptions> = {}) {
  const executions: string[] = [];
  const count = (name: string): number => executions.filter((one) => one === name).length;
  const state = { until: Promise.resolve(), running: 0, most: 0 };
  const resolvers = {
    Query: {
      page: (_: unknown, { slug = "home" }: { slug?: string }) => `${slug} ${executions.push(slug)}`,
      item: () => (executions.push("item"), null),
      items: () => (executions.push("items"), []),
      large: (_: unknown, { bytes }: { bytes: number }) => (executions.push("large"), "x".repeat(bytes)),
      flaky: async () => {
        state.most = Math.max(state.most, ++state.running);
        await state.until;
        state.running--;
        throw new Error("away");
      },
    },
  };
  return { ...openSite({ typeDefs, resolvers, server, ...options }), executions, count, state };
}

describe.each(SERVERS)("what is stored on %s", (server) => {
  it("stores an operation when it is asked for again, and is served from then on", async () => {
    const { ask, executions } = open(server, { knowsOperations: false });
    for (let time = 0; time < 5; time++) await ask("{ page }");
    expect(executions).toHaveLength(2);
  });

  it("answers with the JSON of what scalars return, whether it is executed, shared, stored or served", async () => {
    const value = { at: new Date(0), zero: -0, none: Number.NaN, list: [1, undefined], text: "x" };
    const typeDefs = "scalar Any type Query { any: Any @cacheControl(maxAge: 600) other: Any }";
    const resolvers = { Query: { any: () => value, other: () => value } };
    const { ask } = openSite({ typeDefs, resolvers, server, knowsOperations: false });
    const asks = (): Promise<unknown>[] =>
      ["{ any }", "{ any }", "{ other: any }", "{ any: other }"].map((query) => ask(query));
    const answers = [await Promise.all(asks()), await Promise.all(asks()), await Promise.all(asks())].flat();
    const json = { at: "1970-01-01T00:00:00.000Z", zero: 0, none: null, list: [1, null], text: "x" };
    for (const answer of answers) expect(Object.values((answer as { data: object }).data)).toStrictEqual([json]);
  });

  it("serves what another process has stored at the first request", async () => {
    const clock = new FakeClock();
    const shared = { knowsOperations: false, store: memoryStore({ clock }), clock };
    const [writer, reader] = [open(server, shared), open(server, shared)];
    for (let time = 0; time < 2; time++) await writer.ask("{ page }");
    expect((await reader.ask("{ page }")).data).toEqual({ page: "home 2" });
    expect(reader.executions).toEqual([]);
  });

  it("stores nothing of operations that are asked for once, however many they are", async () => {
    const { ask, cache, executions } = open(server, { knowsOperations: false });
    for (let nth = 0; nth < 150; nth++) await ask(`{ a${nth}: page }`);
    expect(executions).toHaveLength(150);
    expect((await cache.health()).memory?.bytes ?? 0).toBeLessThan(150 * 1_000);
    await ask("{ a7: page }");
    expect(executions).toHaveLength(151);
  });

  it("stores responses of `maxOperations` operations at a time", async () => {
    const { ask, clock, executions } = open(server, { responses: { maxOperations: 2, maxAge: 60 } });
    const askAll = async () => {
      for (const name of ["a", "b", "c"]) await ask(`{ ${name}: page }`);
      return executions.splice(0).length;
    };
    expect(await askAll()).toBe(3);
    expect(await askAll()).toBe(1);
    await clock.advance(61_000);
    await ask("{ c: page }");
    executions.length = 0;
    await ask("{ c: page }");
    expect(executions).toHaveLength(0);
  });

  it.each<[what: string, query: string, name: string, negativeMaxAge?: number]>([
    ["null", "{ item { title } }", "item", 5],
    ["an empty list", "{ items { title } }", "items", 5],
    ["null beside an answer", "{ page item { title } }", "item", 5],
    ["null, for ten seconds unless the cache says how long", "{ item { title } }", "item"],
  ])("keeps a response with %s at its root no longer than `negativeMaxAge`", async (_, query, name, negativeMaxAge) => {
    const defaults = negativeMaxAge === undefined ? {} : { negativeMaxAge };
    const { ask, clock, count } = open(server, { cache: { defaults } });
    await ask(query);
    await clock.advance((negativeMaxAge ?? 10) * 1_000 - 100);
    await ask(query);
    expect(count(name)).toBe(1);
    await clock.advance(200);
    await ask(query);
    expect(count(name)).toBe(2);
  });

  it.each(["__schema { ...Part }", '__type(name: "Item") { ...Part }', "__schema { ... { ...Part } }"])(
    "tells fragments below { %s } apart",
    async (selection) => {
      const { ask } = open(server);
      const of = (field: string) => {
        const type = selection.startsWith("__type") ? "__Type" : "__Schema";
        return `{ page ${selection} } fragment Part on ${type} { ${field} }`;
      };
      const [one, other] = selection.startsWith("__type")
        ? ["name", "kind"]
        : ["queryType { name }", "mutationType { name }"];
      const first = await ask(of(one as string));
      const second = await ask(of(other as string));
      expect(second.data).not.toEqual(first.data);
    },
  );

  it("does not encode a response that is too large for the store again with each request", async () => {
    const { ask, clock, executions } = open(server, { cache: { storage: { maxValueBytes: 1_000 } } });
    const query = "{ large(bytes: 2000) }";
    for (let time = 0; time < 3; time++) await ask(query);
    expect(executions).toHaveLength(3);
    await clock.advance(1_000);
    await ask(query);
    expect(executions).toHaveLength(4);
  });

  it("executes all requests of an operation with a partial error at once", async () => {
    const { ask, state } = open(server);
    const query = "{ page flaky }";
    const held = gate();
    state.until = held.passed;
    const asked = Array.from({ length: 12 }, () => ask(query));
    for (let turn = 0; turn < 20; turn++) await settle();
    expect(state.most).toBe(1);
    const next = gate();
    state.until = next.passed;
    held.open();
    for (let turn = 0; turn < 40; turn++) await settle();
    expect(state.running).toBe(11);
    next.open();
    expect((await Promise.all(asked)).every(({ errors }) => errors?.length === 1)).toBe(true);
  });
});

describe.each(SERVERS)("the tags of responses on %s", (server) => {
  const tags = ({ variables, operationName }: { variables: object; operationName: string | null | undefined }) => [
    `Page:${(variables as { slug?: string }).slug ?? "home"}`,
    ...(operationName == null ? [] : [`Operation:${operationName}`]),
  ];
  const query = "query ($slug: String) { page(slug: $slug) }";

  it("invalidate responses without cached fields", async () => {
    const { ask, cache, executions } = open(server, { responses: { tags } });
    for (const slug of ["a", "b"]) await ask(query, {}, { slug });
    await cache.invalidateTags(["Page:a"]);
    await settle();
    for (const slug of ["a", "b"]) await ask(query, {}, { slug });
    expect(executions).toEqual(["a", "b", "a"]);
  });

  it("can be made from the context and from the name of the operation", async () => {
    const { ask, cache, executions } = open(server, {
      responses: {
        scope: "PRIVATE",
        tags: ({ context, ...request }) => [`User:${(context as Context).user}`, ...tags(request)],
      },
    });
    for (const user of ["ann", "bob"]) await ask("{ page }", { user });
    await cache.invalidateTags(["User:ann"]);
    await settle();
    for (const user of ["ann", "bob"]) await ask("{ page }", { user });
    expect(executions).toHaveLength(3);
  });

  const failing = (): never => {
    throw new Error("no slug");
  };
  it.each([
    ["throws", failing],
    ["returns no array", () => "Page:home"],
    ["returns a promise", async () => ["Page:home"]],
    ["returns an empty tag", () => [""]],
  ])("store nothing if the function %s, which is said once", async (_, broken) => {
    const { ask, executions, lines } = open(server, { responses: { tags: broken as never } });
    for (let time = 0; time < 3; time++) expect((await ask("{ page }")).errors).toBeUndefined();
    expect(executions).toHaveLength(3);
    expect(lines.filter((line) => line.includes("responses.tags"))).toHaveLength(1);
  });
});

describe("cache.execute", () => {
  it("keeps one response cache for options of the same content, however often they are written", async () => {
    const { cache, schema, executions } = open("cache.execute");
    const document = parse("{ page }");
    const ask = (maxAge: number) =>
      cache.execute({ schema, document, contextValue: {} }, { maxAge, tags: () => ["Page:home"] });
    for (let time = 0; time < 4; time++) await ask(60);
    expect(executions).toHaveLength(1);
    await ask(30);
    expect(executions).toHaveLength(2);
    await cache.invalidateTags(["Page:home"]);
    await ask(60);
    expect(executions).toHaveLength(3);
  });
});
