import { randomUUID } from "node:crypto";
import { redisStore } from "graphql-cached/redis";
import { type ClockHead, readHead, type Store } from "graphql-cached/store";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createKeySpace, type KeySpace } from "../../src/core/keys/key.js";
import { readLog, writeRecord } from "../../src/core/store/clock-log.js";
import { slotOfKey } from "../../src/stores/redis/pipeline.js";
import { originOf } from "../support/clock-origin.js";
import { isConnected, PACKAGES, type StoreClient } from "../support/redis-clients.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";

const hard = (subject: number): Buffer => writeRecord({ kind: "hard", subjects: [subject] });

describe.each(PACKAGES)("The invalidation clock of a Cluster, with a client of $name", (clients) => {
  const lab = new RedisLab();
  /** Three masters, followed by the replica of the first, which holds the log. */
  let nodes: readonly LabNode[];
  let cluster: Cluster;
  let client: StoreClient;
  let keys: KeySpace;
  let store: Store;
  const admins: Redis[] = [];
  beforeAll(async () => {
    nodes = await lab.cluster({ replicas: 1 });
    for (const { host, port } of nodes) {
      const admin = new Redis(port, host, { retryStrategy: () => 50 });
      admin.on("error", () => undefined);
      await admin.config("SET", "cluster-require-full-coverage", "no");
      admins.push(admin);
    }
    cluster = new Cluster(
      nodes.map(({ host, port }) => ({ host, port })),
      { slotsRefreshTimeout: 2_000, redisOptions: { maxRetriesPerRequest: 1 }, clusterRetryStrategy: () => 50 },
    );
    cluster.on("error", () => undefined);
    client = clients.cluster(nodes);
    await until("the client is connected", () => isConnected(client));
  });
  afterAll(async () => {
    cluster.disconnect();
    client.disconnect();
    for (const admin of admins) admin.disconnect();
    await lab.stop();
  });
  beforeEach(() => {
    keys = createKeySpace(randomUUID());
    store = redisStore({ client });
    store.open(keys, { wake: () => undefined });
  });

  /** Returns the keys of the clock on a master. */
  const namesOn = (nth: number): Promise<string[]> => (admins[nth] as Redis).keys(`${keys.clock}*`);
  const headAt = async (name: string): Promise<ClockHead | undefined> =>
    readHead((await cluster.getBuffer(name)) ?? undefined);
  const copiesOn = async (nth: number): Promise<string[]> =>
    (await namesOn(nth)).filter((name) => name.startsWith(`${keys.clock}:{`));
  /** A key of an entry on each master, by its number. */
  const keyOn = (master: number): string => {
    for (let nth = 0; ; nth++)
      if (Math.floor(slotOfKey(`k${nth}`) / Math.ceil(16_384 / 3)) === master) return `k${nth}`;
  };
  const shownBy = async (master: number): Promise<ClockHead | undefined> =>
    readHead((await store.read([keyOn(master)])).clock);

  it("has a log on one master, and copies of its head on all of them, each in another sixteenth of the slots", async () => {
    const { position } = await originOf(store);
    const copies = (await Promise.all([0, 1, 2].map(copiesOn))).flat();
    expect(new Set(copies.map((copy) => Math.floor(slotOfKey(copy) / 1_024))).size).toBe(16);
    expect(copies).toHaveLength(16);
    for (const copy of copies) expect((await headAt(copy))?.position).toBe(position);
    const all = (await Promise.all([0, 1, 2].map(namesOn))).flat();
    const others = all.filter((name) => !copies.includes(name));
    expect(new Set(others.map(slotOfKey)).size).toBe(1);
    expect(others).toHaveLength(2);
    for (const name of all) expect(await cluster.ttl(name)).toBe(-1);
  });

  it("shows an invalidation in reads of any master", async () => {
    for (let nth = 0; nth < 3; nth++) {
      const head = readHead(await store.appendClock([hard(nth)]));
      for (const master of [0, 1, 2]) expect(await shownBy(master)).toEqual(head);
      expect(readHead((await store.read([])).clock)).toEqual(head);
    }
  });

  it("keeps all invalidations of concurrent processes, and every copy ends with the last of them", async () => {
    await store.appendClock([]);
    const subjects = Array.from({ length: 40 }, (_, nth) => nth);
    const heads = (await Promise.all(subjects.map((subject) => store.appendClock([hard(subject)])))).map(readHead);
    const log = readLog(await store.readClock(0));
    expect(log?.records.flatMap((record) => record.subjects).toSorted((one, other) => one - other)).toEqual(subjects);
    const latest = Math.max(...heads.map((head) => head?.position ?? 0));
    for (const master of [0, 1, 2])
      for (const copy of await copiesOn(master)) expect((await headAt(copy))?.position).toBe(latest);
  });

  it("shows a copy that was lost or damaged again with the next call, in the same epoch", async () => {
    const origin = await originOf(store);
    const [lost, garbage, list] = (await copiesOn(1)) as [string, string, string];
    await cluster.del(lost, () => undefined);
    await cluster.set(garbage, "garbage");
    await cluster.del(list);
    await cluster.rpush(list, "garbage");
    expect(await originOf(store)).toEqual(origin);
    for (const copy of [lost, garbage, list]) expect(await headAt(copy)).toMatchObject(origin);
  });

  it.each([0, 1, 2])(
    "shows its head without keys although the copies on master %s are lost, whoever replies first",
    async (master) => {
      const head = readHead(await store.appendClock([hard(1)]));
      for (const copy of await copiesOn(master)) await cluster.del(copy);
      for (let nth = 0; nth < 20; nth++) expect(readHead((await store.read([])).clock)).toEqual(head);
    },
  );

  it("begins another epoch on all masters with the next invalidation if its log or the head of it is lost", async () => {
    const origin = await originOf(store);
    const epochs = new Set([origin.epoch]);
    for (const part of [":log:", ":head:"]) {
      const name = (await namesOn(0)).find((one) => one.startsWith(keys.clock + part)) as string;
      await cluster.del(name);
      const head = readHead(await store.appendClock([hard(1)]));
      epochs.add(head?.epoch as string);
      for (const master of [0, 1, 2]) expect(await shownBy(master)).toEqual(head);
    }
    expect(epochs.size).toBe(3);
  });

  it("appends above the copies if the log has gone back, as after a failover to a replica that lags", async () => {
    await store.appendClock([hard(1)]);
    const own = (await namesOn(0)).filter((name) => !name.startsWith(`${keys.clock}:{`));
    const older = await Promise.all(
      own.map(async (name) => [name, (await cluster.dumpBuffer(name)) as Buffer] as const),
    );
    for (let nth = 2; nth < 6; nth++) await store.appendClock([hard(nth)]);
    const shown = (await shownBy(1)) as ClockHead;
    const goBack = async (): Promise<void> => {
      for (const [name, dump] of older) await cluster.restore(name, 0, dump, "REPLACE");
    };
    await goBack();
    const head = readHead(await store.appendClock([hard(9)])) as ClockHead;
    expect(head.epoch).toBe(shown.epoch);
    expect(head.position).toBeGreaterThan(shown.position);
    for (const master of [0, 1, 2]) expect(await shownBy(master)).toEqual(head);
    const log = readLog(await store.readClock(0));
    expect(log?.records.at(-1)).toMatchObject({ subjects: [9], position: head.position });
    // A reader that finds a head without its record in the log asks for the head of the log.
    await goBack();
    const raised = readHead(await store.appendClock([])) as ClockHead;
    expect(raised.position).toBeGreaterThan(head.position);
    expect(readLog(await store.readClock(0))?.records.at(-1)?.nonce).toBe(raised.nonce);
    for (const master of [0, 1, 2]) expect(await shownBy(master)).toEqual(raised);
  });

  it("does not confirm an invalidation while a master without a replica is away, shows it on the others, and confirms it afterwards", async () => {
    const before = await originOf(store);
    await nodes[2]?.kill();
    await until("the others have noticed", async () =>
      String(await (admins[0] as Redis).cluster("INFO")).includes("cluster_slots_fail:5"),
    );
    await expect(store.appendClock([hard(1)])).rejects.toThrow();
    for (const master of [0, 1]) {
      const shown = await shownBy(master);
      expect(shown?.epoch).toBe(before.epoch);
      expect(shown?.position).toBeGreaterThan(before.position);
    }
    await nodes[2]?.restart("--cluster-require-full-coverage", "no");
    await until("the invalidation is confirmed", () =>
      store.appendClock([hard(1)]).then(
        () => true,
        () => false,
      ),
    );
    const head = await originOf(store);
    expect(head.epoch).toBe(before.epoch);
    for (const master of [0, 1, 2]) expect(await shownBy(master)).toMatchObject(head);
  });

  it("takes invalidations again, in the same epoch, after the replica has taken over from the master that holds the log", async () => {
    const before = readHead(await store.appendClock([hard(1)])) as ClockHead;
    const replica = admins[3] as Redis;
    await until("the replica has the log", async () =>
      (await replica.info("replication")).includes("master_link_status:up"),
    );
    await (admins[0] as Redis).wait(1, 5_000);
    await nodes[0]?.kill();
    await expect(store.appendClock([hard(2)])).rejects.toThrow();
    for (const master of [1, 2]) expect((await shownBy(master))?.position).toBe(before.position);
    await until("the invalidation is confirmed", () =>
      store.appendClock([hard(3)]).then(
        () => true,
        () => false,
      ),
    );
    const head = (await shownBy(1)) as ClockHead;
    expect(head.epoch).toBe(before.epoch);
    expect(head.position).toBeGreaterThan(before.position);
    const subjects = readLog(await store.readClock(0))?.records.flatMap((record) => record.subjects);
    expect(subjects).toEqual(expect.arrayContaining([1, 3]));
  });
});
