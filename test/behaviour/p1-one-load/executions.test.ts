import { gate } from "@graphql-cached/testing";
import type { ExecutionResult, GraphQLObjectType, GraphQLResolveInfo } from "graphql";
import { graphql, parse, subscribe } from "graphql";
import { applyCached, type RefreshJob } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { graphql17, itOnGraphql17, variablesOf } from "../../support/graphql-17.js";
import { listen, schemaOf } from "../../support/listen.js";
import { dataOf, memoryWorld, messageOf, timedWorld, waitForStores } from "../../support/world.js";

type Resolve = (source: unknown, args: object, context: unknown, info: GraphQLResolveInfo) => unknown;

/** Reads the field `inner` with its own `info`, as a resolver that calls another one does. */
const readInner: Resolve = (source, args, context, info) => {
  const inner = (info.schema.getQueryType() as GraphQLObjectType).getFields().inner?.resolve as Resolve;
  return inner(source, args, context, info);
};

/** A process with the cached field `inner`, which is 5, and those of `resolvers`. Without the audit, which takes the `info` of a load for an execution. */
function processWithInner(resolvers: Readonly<Record<string, Resolve>>) {
  const { cache, events } = listen();
  const fields = ["inner", ...Object.keys(resolvers)].map((name) => `${name}: Int @cached(maxAge: 60)`);
  const source = schemaOf(`type Query { ${fields.join(" ")} }`, { Query: { inner: () => 5, ...resolvers } });
  const served = () => events.flatMap((event) => (event.name === "entry.served" ? [event] : []));
  return { schema: applyCached(source, cache), served };
}

/** What graphql 16 and 17 identify an execution by, and pass to resolvers. */
describe("an execution", () => {
  it("of a subscription's event reads what was invalidated since the event before", async () => {
    let loads = 0;
    const events = async function* () {
      for (let nth = 1; nth <= 3; nth++) yield { rated: { nth } };
    };
    const process = memoryWorld().process(
      `type Query { movie: Movie }
       type Subscription { rated: Movie }
       type Movie { nth: Int stars: Int @cached(maxAge: 60, key: []) }`,
      { Subscription: { rated: { subscribe: events } }, Movie: { stars: () => ++loads } },
    );
    const document = parse("subscription { rated { nth stars } }");
    const answers = (await subscribe({ schema: process.schema, document })) as AsyncGenerator<ExecutionResult>;
    const seen: unknown[] = [];
    for await (const { data } of answers) {
      seen.push(JSON.parse(JSON.stringify(data)));
      await waitForStores(process, loads);
      if (seen.length === 1) await process.cache.invalidate({ coordinate: "Movie.stars" });
    }
    expect(seen).toEqual([
      { rated: { nth: 1, stars: 1 } },
      { rated: { nth: 2, stars: 2 } },
      { rated: { nth: 3, stars: 2 } },
    ]);
    expect(process.outcomes()).toEqual({ loaded: 2, hit: 1 });
  });

  it("reads a key once, below whichever root field", async () => {
    const process = memoryWorld().process(
      "type Query { a: Movie b: Movie } type Movie { stars: Int @cached(maxAge: 60, key: []) }",
      { Query: { a: () => ({}), b: async () => ({}) }, Movie: { stars: () => 5 } },
    );
    expect(await dataOf(process.ask("{ a { stars } b { stars } }"))).toEqual({ a: { stars: 5 }, b: { stars: 5 } });
    expect(process.outcomes()).toEqual({ loaded: 1 });
  });

  it("serves a key again, whatever its value, without another read of the store", async () => {
    const values: Record<string, unknown> = { number: 0, text: "", list: [1], nothing: null };
    const cached = ": $1 @cached(maxAge: 60, negativeMaxAge: 60, key: [])";
    const fields = "number: Int text: String list: [Int] nothing: Int".replaceAll(/: (\S+)/g, cached);
    const world = memoryWorld();
    const later = gate();
    const process = world.process(
      `type Query { first: Movie later: Later } type Movie { ${fields} } type Later { first: Movie }`,
      {
        Query: { first: () => ({}), later: () => ({}) },
        Later: { first: async () => (await later.passed, {}) },
        Movie: Object.fromEntries(Object.entries(values).map(([name, value]) => [name, () => value])),
      },
    );
    await dataOf(process.ask("{ first { number text list nothing } }"));
    await waitForStores(process, 4);
    const read = vi.spyOn(world.store(), "read");
    const query = "{ first { number text list nothing } later { first { number text list nothing } } }";
    const answer = dataOf(process.ask(query));
    await vi.waitFor(() => expect(process.outcomes()).toEqual({ loaded: 4, hit: 4 }));
    later.open();
    expect(await answer).toEqual({ first: values, later: { first: values } });
    expect(read).toHaveBeenCalledTimes(1);
    expect(process.outcomes()).toEqual({ loaded: 4, hit: 8 });
  });

  it("loads a key once, also for another load, which reads it again", async () => {
    const { schema, served } = processWithInner({ outer: readInner });
    expect(await dataOf(graphql({ schema, source: "{ inner outer }" }))).toEqual({ inner: 5, outer: 5 });
    expect(served().filter(({ outcome }) => outcome === "loaded")).toHaveLength(2);
  });

  it("reads a key once for all of its loads under way", async () => {
    const begun: string[] = [];
    const loads = gate();
    const readLater: Resolve = async (source, args, context, info) => {
      begun.push(info.fieldName);
      await loads.passed;
      return readInner(source, args, context, info);
    };
    const { schema, served } = processWithInner({ outer: readLater, other: readLater });
    const answer = dataOf(graphql({ schema, source: "{ outer other }" }));
    await vi.waitFor(() => expect(begun).toEqual(["outer", "other"]));
    loads.open();
    expect(await answer).toEqual({ outer: 5, other: 5 });
    expect(served().filter(({ coordinate }) => coordinate === "Query.inner")).toMatchObject([{ outcome: "loaded" }]);
  });

  itOnGraphql17("of arguments that were validated once reads what was invalidated since the last", async () => {
    let loads = 0;
    const process = memoryWorld().process("type Query { top: Int @cached(maxAge: 60) }", {
      Query: { top: () => ++loads },
    });
    const validated = graphql17.validateExecutionArgs({ schema: process.schema, document: parse("{ top }") });
    const ask = async (): Promise<unknown> => dataOf(Promise.resolve(graphql17.executeRootSelectionSet(validated)));
    expect(await ask()).toEqual({ top: 1 });
    await waitForStores(process);
    await process.cache.invalidate({ coordinate: "Query.top" });
    expect(await ask()).toEqual({ top: 2 });
  });

  it("in a worker has variable values in the form that resolvers find in a query", async () => {
    const world = timedWorld();
    const seen: unknown[] = [];
    const top = (_: unknown, __: unknown, { isWorker }: { isWorker?: boolean }, info: GraphQLResolveInfo): number => {
      if (isWorker === true) seen.push(Object.keys(variablesOf(info)));
      return 7;
    };
    const typeDefs = "type Query { top: Int @cached(maxAge: 1, staleWhileRevalidate: 600) }";
    const start = (refreshQueue?: (job: RefreshJob) => unknown) =>
      world.process(typeDefs, { Query: { top } }, { loads: { refreshQueue } });
    const jobs: RefreshJob[] = [];
    const web = start((job) => jobs.push(job));
    await dataOf(web.ask("{ top }", {}));
    await waitForStores(web);
    await world.clock.advance(2_000);
    await dataOf(web.ask("{ top }", {}));
    await vi.waitFor(() => expect(jobs).toHaveLength(1));
    await start().cache.refresh(jobs[0] as RefreshJob, { isWorker: true } as never);
    expect(seen).toEqual([[]]);
  });

  it("ends no load of a reader whose own execution goes on", async () => {
    const loadGate = gate();
    const { ask } = memoryWorld().process("type Query { top: Int @cached(maxAge: 60) failing: Int! }", {
      Query: { top: async () => (await loadGate.passed, 7), failing: () => Promise.reject(new Error("no")) },
    });
    const failing = messageOf(ask("{ top failing }"));
    const waiting = dataOf(ask("{ top }"));
    expect(await Promise.race([failing, waiting])).toBe("no");
    loadGate.open();
    expect(await waiting).toEqual({ top: 7 });
  });
});
