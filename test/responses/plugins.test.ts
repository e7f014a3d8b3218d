import type { HeaderMap } from "@apollo/server";
import { gate, settle } from "@graphql-cached/testing";
import { useExecutionCancellation } from "graphql-yoga";
import { describe, expect, it, onTestFinished } from "vitest";
import { apolloOf, askApollo, type Context, openSite, SERVERS, type ServerName, yogaOf } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { now: Int @cacheControl(maxAge: 60) broken: Int @cacheControl(maxAge: 60) }
`;

type Resolve = (parent: unknown, args: unknown, context: { readonly http: Head }) => unknown;

/** A site whose field returns how often it was executed, if `now` returns nothing. */
function open(server?: ServerName, options: object = {}, now?: Resolve) {
  let executions = 0;
  const counted: Resolve = (...args) => (executions++, now?.(...args) ?? executions);
  const site = openSite({ typeDefs, resolvers: { Query: { now: counted } }, ...(server && { server }), ...options });
  return { ...site, count: () => executions };
}

interface Head {
  status?: number;
  readonly headers: HeaderMap;
}
interface Request {
  readonly contextValue: Context;
  readonly overallCachePolicy: { replace(hint: object): void };
  readonly response: { readonly http: Head; readonly body: { singleResult: { [member: string]: unknown } } };
}
/** Plugins of Apollo Server, with a hook at the begin of a request and at its end. */
const beginning = (begin: (request: Request) => unknown) => ({
  requestDidStart: async (request: Request) => void begin(request),
});
const ending = (end: (request: Request) => unknown) => ({
  requestDidStart: async () => ({ willSendResponse: async (request: Request) => void end(request) }),
});

describe("beside other plugins of Apollo Server, a response", () => {
  it("is stored although one sets a header of each request before its operation", async () => {
    const plugins = [beginning(({ response }) => response.http.headers.set("x-request-id", "1"))];
    const { ask, count } = open("Apollo Server", { plugins });
    for (const _ of [1, 2]) await ask("{ now }");
    expect(count()).toBe(1);
  });

  /** Lets the execution change the head of the response. Returns the heads of two, each of which is executed. */
  async function headsOfTwo(change: (http: Head, nth: number) => unknown, begin?: (http: Head) => unknown) {
    // Otherwise it is not stored because it depends on the context.
    const cache = { privacy: { sharedContextKeys: ["http"] } };
    const site = open(undefined, { cache }, (_parent, _args, { http }) => void change(http, site.count()));
    const exposing = beginning(({ response: { http }, contextValue }) => {
      begin?.(http);
      Object.assign(contextValue, { http });
    });
    const apollo = apolloOf(site, { before: [exposing] });
    const heads = [(await askApollo(apollo, "{ now }")).http, (await askApollo(apollo, "{ now }")).http];
    expect(site.count()).toBe(2);
    return heads;
  }

  it("is not stored if its execution has replaced a cookie that every response has", async () => {
    const heads = await headsOfTwo(
      ({ headers }, nth) => headers.set("set-cookie", `session=${nth}`),
      ({ headers }) => headers.set("set-cookie", "csrf=1"),
    );
    expect(heads.map(({ headers }) => headers.get("set-cookie"))).toEqual(["session=1", "session=2"]);
  });

  it("is not stored if its execution has set a status", async () => {
    const heads = await headsOfTwo((http) => (http.status = 202));
    expect(heads.map(({ status }) => status)).toEqual([202, 202]);
  });

  it("has for others nothing of what one that comes first replaces for its caller", async () => {
    const masking = ending(({ contextValue, response: { body } }) => {
      const { now } = body.singleResult.data as { now: number };
      body.singleResult.data = { now: `${now} seen by ${contextValue.user}` };
    });
    const apollo = apolloOf(open(), { before: [masking] });
    for (const user of ["ann", "bob"])
      expect((await askApollo(apollo, "{ now }", { user })).data).toEqual({ now: `1 seen by ${user}` });
  });

  it("has for others nothing of what one that comes first masks for its caller, and makes cacheable", async () => {
    const resolvers = { Query: { unhinted: () => 1 } };
    const policing = ending(({ contextValue, overallCachePolicy, response: { body } }) => {
      overallCachePolicy.replace({ maxAge: 60, scope: "PUBLIC" });
      (body.singleResult.data as { unhinted: unknown }).unhinted += ` seen by ${contextValue.user}`;
    });
    const site = openSite({ typeDefs: "type Query { unhinted: Int }", resolvers });
    const apollo = apolloOf(site, { before: [policing] });
    for (const user of ["ann", "bob", "cid", "dan"])
      expect((await askApollo(apollo, "{ unhinted }", { user })).data).toEqual({ unhinted: `1 seen by ${user}` });
  });

  it("is not stored if it was executed with errors that one that comes first takes from it", async () => {
    let isBroken = true;
    const broken = () => {
      if (isBroken) throw new Error("away");
      return 1;
    };
    const hiding = ending(({ response }) => (response.body.singleResult.errors = undefined));
    const apollo = apolloOf(openSite({ typeDefs, resolvers: { Query: { broken } } }), { before: [hiding] });
    await askApollo(apollo, "{ broken }");
    isBroken = false;
    expect((await askApollo(apollo, "{ broken }")).data).toEqual({ broken: 1 });
  });

  it("is stored whatever one adds to the context when all resolvers have returned", async () => {
    const adding = ending(({ contextValue }) => Object.assign(contextValue, { sentAt: 1 }));
    const apollo = apolloOf(open(), { before: [adding], responses: { scope: "PUBLIC" } });
    for (let nth = 0; nth < 3; nth++) expect((await askApollo(apollo, "{ now }")).data).toEqual({ now: 1 });
  });
});

describe("beside other plugins of GraphQL Yoga, a response", () => {
  it("is not stored if one has answered in place of the execution", async () => {
    let isFirst = true;
    const answering = {
      onExecute({ setResultAndStopExecution }: { setResultAndStopExecution(result: object): void }) {
        if (isFirst) setResultAndStopExecution({ data: { now: -1 } });
        isFirst = false;
      },
    };
    const { ask } = open("GraphQL Yoga", { plugins: [answering] });
    expect([(await ask("{ now }")).data, (await ask("{ now }")).data]).toEqual([{ now: -1 }, { now: 1 }]);
  });

  it("goes to others who wait if the request that executes is aborted", async () => {
    const held = gate();
    const site = open(undefined, {}, () => (site.count() === 1 ? held.passed : undefined));
    const yoga = yogaOf(site, { before: [useExecutionCancellation()] });
    const controller = new AbortController();
    const ask = async (signal?: AbortSignal) => {
      const response = await yoga.fetch("http://localhost/graphql", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ query: "{ now }" }),
        ...(signal === undefined ? {} : { signal }),
      });
      return response.json() as Promise<unknown>;
    };
    const first = ask(controller.signal).catch(() => undefined);
    for (let turn = 0; turn < 5; turn++) await settle();
    let isAnswered = false;
    const second = ask().finally(() => (isAnswered = true));
    for (let turn = 0; turn < 5; turn++) await settle();
    controller.abort();
    for (let turn = 0; turn < 20; turn++) await settle();
    const before = isAnswered;
    held.open();
    await Promise.all([first, second]);
    expect(before).toBe(true);
  });
});

describe("the next request is answered at once after one whose execution has never ended, since", () => {
  /** Asks once, which fails, and once more. Expects the second answer before any time has passed. */
  async function expectSecondAnswer(server: ServerName, plugin: object): Promise<void> {
    const { ask, clock } = openSite({ typeDefs, resolvers: { Query: { now: () => 1 } }, server, plugins: [plugin] });
    await ask("{ now }").catch(() => undefined);
    let data: unknown;
    const answer = ask("{ now }").then((one) => (data = one.data));
    for (let turn = 0; turn < 20 && data === undefined; turn++) await settle();
    const before = data;
    // The time limit of loads, and that of a server that stops, so that the test ends.
    await clock.advance(31_000);
    await answer;
    const passTime = async (): Promise<void> => {
      for (let turn = 0; turn < 20; turn++) await settle().then(() => clock.advance(1_000));
    };
    onTestFinished(() => void passTime());
    expect(before).toEqual({ now: 1 });
  }
  /** Returns what runs `fail` once. */
  const once = (fail: () => unknown) => {
    let isFirst = true;
    return (): unknown => {
      const isOver = !isFirst;
      isFirst = false;
      return isOver ? undefined : fail();
    };
  };
  const broken = (): never => {
    throw new Error("broken plugin");
  };

  it.each(["responseForOperation", "executionDidStart"])("%s of Apollo Server has thrown", async (hook) => {
    const fail = once(broken);
    await expectSecondAnswer("Apollo Server", { requestDidStart: async () => ({ [hook]: async () => fail() }) });
  });

  it("the hook onExecute of GraphQL Yoga has thrown", async () => {
    const fail = once(broken);
    await expectSecondAnswer("GraphQL Yoga", { onExecute: () => void fail() });
  });

  it("the executor of GraphQL Yoga has thrown", async () => {
    let setExecutor = (_run: () => Promise<never>): void => undefined;
    const fail = once(() => setExecutor(() => Promise.reject(new Error("subgraph away"))));
    await expectSecondAnswer("GraphQL Yoga", {
      onExecute({ setExecuteFn }: { setExecuteFn: typeof setExecutor }) {
        setExecutor = setExecuteFn;
        fail();
      },
    });
  });
});

describe("two servers of one cache with other options", () => {
  it("send no extensions that only the other one stores", async () => {
    const debug = ending(({ response }) => (response.body.singleResult.extensions = { debug: "internal" }));
    const site = open();
    const internal = apolloOf(site, { before: [debug], responses: { extensions: ["debug"] } });
    await askApollo(internal, "{ now }");
    expect(JSON.stringify(await askApollo(apolloOf(site), "{ now }"))).not.toContain("internal");
  });

  it("serve no response for longer than their own `maxAge`", async () => {
    const site = open();
    await askApollo(apolloOf(site), "{ now }");
    await site.clock.advance(10_000);
    expect((await askApollo(apolloOf(site, { responses: { maxAge: 5 } }), "{ now }")).data).toEqual({ now: 2 });
  });
});

describe.each(SERVERS)("on %s", (server) => {
  it("no response is stored if none of its cached fields was read, as when another cache has answered", async () => {
    const more = "extend type Query { cached: Int @cached(maxAge: 60) @cacheControl(maxAge: 60) }";
    const { ask, count } = open(server, { typeDefs: typeDefs + more });
    const query = "query ($reads: Boolean!) { now cached @include(if: $reads) }";
    for (const reads of [false, false, true, true]) await ask(query, {}, { reads });
    expect(count()).toBe(3);
  });

  it("a request waits for the execution of another one for no longer than leaseWaitMs, as documented", async () => {
    const held = gate();
    const cache = { leases: { leaseWaitMs: 2_000 } };
    const site = open(server, { cache }, () => (site.count() === 1 ? held.passed : undefined));
    const first = site.ask("{ now }");
    for (let turn = 0; turn < 10; turn++) await settle();
    let isAnswered = false;
    const second = site.ask("{ now }").then(() => (isAnswered = true));
    for (let turn = 0; turn < 10; turn++) await settle();
    await site.clock.advance(2_500);
    for (let turn = 0; turn < 10; turn++) await settle();
    const before = isAnswered;
    held.open();
    await Promise.all([first, second]);
    expect(before).toBe(true);
  });
});
