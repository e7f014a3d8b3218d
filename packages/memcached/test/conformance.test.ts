import { setTimeout as pause } from "node:timers/promises";
import { memcachedStore } from "@graphql-cached/memcached";
import { type ConformanceSubject, FakeClock } from "@graphql-cached/testing";
import { MemcacheClient } from "memcache-client";
import { closing, itKeepsTheRules, once, subjectOf } from "../../../test/support/conformance.js";
import type { Address } from "../../../test/support/server-lab.js";
import { sharedServer } from "../../../test/support/shared-servers.js";
import { fakeServer } from "./fake-memcached.js";

const lacks = {
  wakes: "memcached has no messages; waiters poll",
  heads: "memcached has no messages; the memory asks",
};

function clientOf({ host, port }: Address): MemcacheClient {
  const client = new MemcacheClient({ server: `${host}:${port}`, noDelay: true });
  closing.push(async () => client.shutdown());
  return client;
}

/** The store estimates the server's time to about 100 ms and prolongs every duration by its uncertainty. */
const inexactTime = (ms: number): Promise<void> => pause(ms + 150);

/** Lets a store learn its server's time first: the durations in the cases are shorter than its initial uncertainty. */
async function learnTime({ store }: ConformanceSubject, elapse: (ms: number) => Promise<void>): Promise<void> {
  for (let turn = 0; turn < 22; turn++) {
    // Enough names for every server to hold one.
    await store.read("abcdefghij".split(""));
    await elapse(60);
  }
}

itKeepsTheRules("The memcached store", {
  lacks,
  make: once(async () => {
    const [address] = await sharedServer("memcached");
    return subjectOf(memcachedStore({ client: clientOf(address) }), inexactTime);
  }),
  prepare: (subject) => learnTime(subject, pause),
});

itKeepsTheRules("The memcached store on several servers", {
  lacks,
  make: once(async () => {
    const [, b, c] = await sharedServer("memcached");
    return subjectOf(memcachedStore({ servers: { b: clientOf(b), c: clientOf(c) } }), inexactTime);
  }),
  prepare: (subject) => learnTime(subject, pause),
});

itKeepsTheRules("The memcached store on the time of a fake clock", {
  lacks,
  make: async () => {
    const clock = new FakeClock();
    const server = fakeServer(undefined, () => Math.floor(clock.now() / 1_000));
    const subject = subjectOf(memcachedStore({ client: server.client, clock }), (ms) => clock.advance(ms + 150));
    await learnTime(subject, (ms) => clock.advance(ms));
    return subject;
  },
});
