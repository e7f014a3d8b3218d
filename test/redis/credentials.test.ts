import { randomUUID } from "node:crypto";
import { gate, settle } from "@graphql-cached/testing";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { isConnected, NODE_REDIS, PACKAGES_OF_SLOW_TESTS, type StoreClient } from "../support/redis-clients.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { afterCaches, dataOf, memoryWorld, type Process } from "../support/world.js";

/** As docs/stores.md lists them. */
const COMMANDS =
  "+mget +time +evalsha +eval +subscribe +get +set +del +unlink +append +getrange +setrange +strlen +exists +pexpire +persist +pttl +publish +zadd +zrange +zremrangebyscore +cluster|slots +cluster|info +client|setname +asking +unsubscribe";
const typeDefs = /* GraphQL */ `
  type Query {
    value(id: ID!): Int @cached(maxAge: 60, tags: ["Value:{$args.id}"])
  }
`;

type Client = StoreClient;
interface Secret {
  password?: string | undefined;
}
type RedisOptions = { readonly redisOptions: Secret };

/** Those of a Cluster for connections to new nodes, of which ioredis 6 makes a copy. */
function optionsForNew(client: Client): readonly Secret[] {
  const { options, connectionPool } = client as unknown as Record<"options" | "connectionPool", RedisOptions>;
  return [options.redisOptions, connectionPool.redisOptions];
}
const optionsOfNodes = (client: Client): readonly Secret[] =>
  (client as unknown as Cluster).nodes().map(({ options }) => options as Secret);

/** A server, or all nodes of a Cluster, with users of its own. */
interface Site {
  readonly name: string;
  start(lab: RedisLab): Promise<readonly LabNode[]>;
  connect(nodes: readonly LabNode[], username: string, password: string): Client;
  /** Where an application whose tokens expire may write another password; each is enough for new connections of the store. */
  readonly options: Readonly<Record<string, (client: Client) => readonly Secret[]>>;
}

/** What the provider of each client of node-redis returns. */
const provided = new WeakMap<Client, Secret>();

/** Returns a client of node-redis whose provider is asked for the credentials of each connection. */
function withProvider(connect: (options: object) => Client, username: string, password: string): Client {
  const secret: Secret = { password };
  const credentials = async (): Promise<object> => ({ username, password: secret.password });
  const client = connect({ credentialsProvider: { type: "async-credentials-provider", credentials } });
  provided.set(client, secret);
  return client;
}
const optionsOfProvider = { "its provider": (client: Client): readonly Secret[] => [provided.get(client) as Secret] };

const SITES: readonly Site[] = [
  {
    name: "a single server",
    start: async (lab) => [await lab.standalone()],
    connect: ([node], username, password) =>
      new Redis({ host: node?.host as string, port: node?.port as number, username, password }),
    options: { "its options": (client) => [(client as unknown as Redis).options as Secret] },
  },
  {
    name: "a Cluster",
    start: (lab) => lab.cluster(),
    connect: (nodes, username, password) =>
      new Cluster(
        nodes.map(({ host, port }) => ({ host, port })),
        { redisOptions: { username, password } },
      ),
    options: {
      "all its options": (client) => [...optionsForNew(client), ...optionsOfNodes(client)],
      "those for new nodes": optionsForNew,
    },
  },
  {
    name: "a single server with node-redis",
    start: async (lab) => [await lab.standalone()],
    connect: ([node], ...user) => withProvider((options) => NODE_REDIS.server(node as LabNode, options), ...user),
    options: optionsOfProvider,
  },
  {
    name: "a Cluster with node-redis",
    start: (lab) => lab.cluster(),
    connect: (nodes, ...user) => withProvider((options) => NODE_REDIS.cluster(nodes, options), ...user),
    options: optionsOfProvider,
  },
];

const isTested = ({ name }: (typeof SITES)[number]): boolean =>
  !name.endsWith("node-redis") || PACKAGES_OF_SLOW_TESTS.includes(NODE_REDIS);

describe.each(SITES.filter(isTested))("redisStore on $name", ({ start, connect, options: places }) => {
  const setPassword = (client: Client, password: string, into = Object.values(places)): void => {
    for (const options of into.flatMap((optionsOf) => optionsOf(client))) options.password = password;
  };
  const lab = new RedisLab();
  let nodes: readonly LabNode[];
  let admins: readonly Redis[];
  beforeAll(async () => {
    nodes = await start(lab);
    admins = nodes.map(({ host, port }) => new Redis(port, host));
  });
  afterAll(async () => {
    for (const admin of admins) admin.disconnect();
    await lab.stop();
  });

  const everywhere = async (...command: readonly string[]): Promise<unknown[]> =>
    Promise.all(admins.map((admin) => admin.call(...(command as [string, ...string[]]))));
  const setUser = (username: string, ...rules: string[]): Promise<unknown> =>
    everywhere("ACL", "SETUSER", username, ...rules);

  /** Starts a process whose user has a password, and `rules` besides those that are documented. */
  async function startProcess(options: object = {}, rules: readonly string[] = []) {
    const username = `user-${randomUUID()}`;
    const prefix = `acl-${randomUUID()}`;
    const channels = ["resetchannels", `&${prefix}:#wake`, `&${prefix}:#clock`];
    await setUser(username, "on", ">one", "~*", ...channels, "-@all", ...COMMANDS.split(" "), ...rules);
    const client = connect(nodes, username, "one");
    client.on("error", () => undefined);
    afterCaches(async () => client.disconnect());
    const lines: string[] = [];
    const log = (line: string): void => void lines.push(line);
    const store = redisStore({ client });
    const state = { loads: 0, hold: undefined as Promise<void> | undefined };
    const value = async (): Promise<number> => {
      const nth = ++state.loads;
      await state.hold;
      return nth;
    };
    const settings = { prefix, storage: { storeTimeoutMs: 1_000 }, logger: { info: log, warn: log } };
    const world = memoryWorld(() => store);
    const process = world.process(
      typeDefs,
      { Query: { value } },
      { ...settings, memory: { maxStalenessMs: 2_000 }, ...options },
    );
    /** Another process, whose user is the same. */
    const another = (): Process => world.process(typeDefs, { Query: { value } }, settings);
    const ask = (id: string): Promise<unknown> => dataOf(process.ask(`{ value(id: "${id}") }`));
    const killed = (type?: string): Promise<unknown> =>
      everywhere("CLIENT", "KILL", "USER", username, ...(type === undefined ? [] : ["TYPE", type]));
    const isWorking = async (): Promise<boolean> => {
      const channels = [`${prefix}:#wake`, `${prefix}:#clock`];
      const counts = await Promise.all(admins.map((admin) => admin.pubsub("NUMSUB", ...channels)));
      const { status } = await process.cache.health();
      return status === "ok" && counts.some(([, wake, , clock]) => Number(wake) === 1 && Number(clock) === 1);
    };
    await until("the client is connected", () => isConnected(client));
    if (rules.length === 0) await until("all connections are there", isWorking);
    return { ...process, another, ask, client, username, lines, killed, isWorking, state };
  }

  const warnings = (lines: readonly string[]): string[] => lines.filter((line) => !/again/.test(line));
  const aboutConnections = (lines: readonly string[]): string[] => lines.filter((line) => /connection/.test(line));
  const failures = ({ events }: Pick<Process, "events">): string[] =>
    events.flatMap((event) => (event.name === "connection.failed" ? [String(event.error)] : []));

  const untilBack = (isWorking: () => Promise<boolean>): Promise<void> =>
    until("wake-ups and messages to the memory are back", isWorking);

  it("follows credentials that are replaced, and renewed in the client, while requests go on", async () => {
    const process = await startProcess();
    let isOver = false;
    const requests = (async () => {
      for (let nth = 0; !isOver; nth++) {
        await process.ask(`${nth % 5}`);
        // Hits from memory are made of promises alone, which would leave no turn for the connections.
        await settle();
      }
    })();
    for (const [nth, password] of ["two", "three"].entries()) {
      await setUser(process.username, "resetpass", `>${password}`);
      // Once before the connections break, and once after.
      if (nth === 0) setPassword(process.client, password);
      await process.killed();
      if (nth === 1) setPassword(process.client, password);
      await untilBack(process.isWorking);
    }
    isOver = true;
    await requests;
    expect(failures(process)).toEqual([]);
    // While the client has no connection, that is reported once for each node.
    expect(warnings(process.lines).length).toBeLessThanOrEqual(2 * nodes.length);
  });

  it.each(Object.entries(places))(
    "reports once that its own connections are refused, in the words of the server, and takes the client's new password from %s",
    async (_, place) => {
      const process = await startProcess();
      await setUser(process.username, "resetpass", ">two");
      await process.killed("pubsub");
      await until("it is reported", () => failures(process).length > 0);
      expect(await process.cache.health()).toMatchObject({
        status: "degraded",
        reasons: expect.arrayContaining([
          expect.objectContaining({ code: "CONNECTION_FAILED", message: expect.stringMatching("wake-ups: WRONGPASS") }),
          expect.objectContaining({
            code: "CONNECTION_FAILED",
            message: expect.stringMatching("memory: WRONGPASS"),
          }),
        ]),
      });
      // Requests go on meanwhile, over the connection that is still there.
      await process.ask("1");
      setPassword(process.client, "two", [place]);
      await untilBack(process.isWorking);
      expect(failures(process)).toEqual([expect.stringContaining("WRONGPASS")]);
      expect(aboutConnections(process.lines)).toEqual([
        expect.stringMatching(/the connection for .* cannot be used: WRONGPASS/),
        "graphql-cached: all connections of the store can be used again",
      ]);
    },
  );

  it.each([
    ["subscribe", "-subscribe", "+subscribe", "wake-ups"],
    ["use the channel", "resetchannels", "allchannels", "wake-ups"],
    ["use the channel of the clock", "resetchannels &*:#wake", "allchannels", "memory"],
  ])("reports once that it may not %s, and works as soon as it may", async (_what, denied, granted, use) => {
    const process = await startProcess({}, denied.split(" "));
    await until("it is reported", () => failures(process).length > 0);
    await vi.waitFor(async () =>
      expect(await process.cache.health()).toMatchObject({
        status: "degraded",
        reasons: expect.arrayContaining([
          expect.objectContaining({ code: "CONNECTION_FAILED", message: expect.stringMatching(`${use}: NOPERM`) }),
        ]),
      }),
    );
    await process.ask("1");
    expect(new Set(failures(process)).size).toBe(failures(process).length);
    await setUser(process.username, granted);
    await untilBack(process.isWorking);
    expect(aboutConnections(process.lines)).toHaveLength(failures(process).length + 1);
  });

  it.each([
    ["run scripts by their hash", "-evalsha", "+evalsha", /NOPERM/],
    ["run scripts", "-eval", "+eval", /NOPERM/],
    ["write in scripts", "-set", "+set", /can't run this command|NOPERM|ACL failure/],
    ["read", "-mget", "+mget", /NOPERM/],
  ])(
    "reports once that it may not %s, shows it, and works as soon as it may",
    async (_what, denied, granted, words) => {
      if (denied === "-eval") await everywhere("SCRIPT", "FLUSH");
      const process = await startProcess({}, denied.split(" "));
      for (let nth = 0; nth < 3; nth++) expect(await process.ask(`${nth}`)).toEqual({ value: nth + 1 });
      await vi.waitFor(async () =>
        expect(await process.cache.health()).toMatchObject({
          status: expect.not.stringMatching("ok"),
          reasons: expect.arrayContaining([
            expect.objectContaining({ code: "PERMISSION_MISSING", message: expect.stringMatching(words) }),
          ]),
        }),
      );
      expect(warnings(process.lines).filter((line) => words.test(line)).length).toBeGreaterThan(0);
      await setUser(process.username, granted);
      let nth = 0;
      await until("everything works again", async () => {
        await process.ask(`later ${nth++}`);
        return (await process.cache.health()).status === "ok";
      });
    },
  );

  it("reports that it may not publish, when a caller waits for a value that another process loads", async () => {
    const process = await startProcess({ storage: { storeTimeoutMs: 1_000 } }, ["-publish"]);
    const loading = gate();
    process.state.hold = loading.passed;
    const first = process.ask("1");
    await until("it loads", () => process.state.loads === 1);
    const other = process.another();
    const second = dataOf(other.ask('{ value(id: "1") }'));
    await until("the other one waits", () =>
      other.events.some((event) => event.name === "store.finished" && event.operation === "acquire"),
    );
    loading.open();
    expect([await first, await second]).toEqual([{ value: 1 }, { value: 1 }]);
    await until("it is reported", () =>
      process.events.some((event) => event.name === "store.failed" && event.operation === "storeValues"),
    );
    expect(await process.cache.health()).toMatchObject({
      status: "degraded",
      reasons: [
        { code: "PERMISSION_MISSING", message: expect.stringMatching(/`storeValues`: .*(publish|run this command)/) },
      ],
    });
  });
});
