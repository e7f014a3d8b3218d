import { randomBytes } from "node:crypto";
import { type Clock, systemClock } from "../../core/base/clock.js";
import { optionInvalid } from "../../core/base/errors.js";
import { checkOptionNames } from "../../core/base/option-names.js";
import { throwIfAnyFailed } from "../../core/store/answers.js";
import { appendToCopies } from "../../core/store/clock-log.js";
import { bytesOf, entryParts } from "../../core/store/entry-layout.js";
import {
  type ConnectionFailure,
  checkPrefix,
  REPORTS_WANTED_MS,
  type Store,
  type StoreNames,
  type StoreOutcome,
  type Wake,
} from "../../core/store/store.js";
import { newTokens, newValue } from "../../core/store/transitions.js";
import type { ClientPort, Command, RedisClient } from "./client-port.js";
import { ConnectionErrors } from "./connection-errors.js";
import { READ_TIME, readerOn, ServerTimes, timeOf } from "./entry-reader.js";
import { isClient, portOf, problemOfClient } from "./known-clients.js";
import { runScript, send, slotOfKey } from "./pipeline.js";
import { RedisClock } from "./redis-clock.js";
import { checkReply, integerOf, readGrant, readWakeup } from "./replies.js";
import { acquire } from "./scripts/acquire.js";
import { release } from "./scripts/release.js";
import { remove } from "./scripts/remove.js";
import { renew } from "./scripts/renew.js";
import { storeValues } from "./scripts/store-values.js";
import { Subscriber } from "./subscriber.js";

/**
 * Creates a store on Redis 6.2 or newer, shared by all processes that use the same prefix. Each
 * entry is a single string, so the store works the same on a Cluster and on a single server. The
 * client is never closed; the connections that the store duplicates from it are closed with the
 * last cache that uses the store. Throws `CACHED_OPTION_INVALID` if `client` is not a client that
 * can be used, such as one with a `keyPrefix`.
 */
export function redisStore(options: RedisStoreOptions): Store {
  if (isClient(options))
    throw optionInvalid("redisStore: expected an object of options, got a client; pass redisStore({ client })");
  checkOptionNames(options, "redisStore", ["client", "clock"], { url: "`client: new Redis(url)`", redis: "`client`" });
  const { client, clock = systemClock } = options;
  const problem = problemOfClient(client);
  if (problem !== undefined) throw optionInvalid(`redisStore: \`client\`: ${problem}`);
  if ((client as { options?: { keyPrefix?: string } }).options?.keyPrefix)
    throw optionInvalid(
      "redisStore: `client`: expected a client without `keyPrefix`, which ioredis applies to keys but not to messages; pass createCache({ prefix }) instead",
    );
  return storeOn(portOf(client), clock);
}

const keyOf = ({ key }: { readonly key: string }): string => key;

const STORE_OUTCOMES: ReadonlyMap<unknown, StoreOutcome> = new Map([
  [1, "stored"],
  [0, "refused"],
  [-1, "expired"],
]);

/** Options of `redisStore`. */
export interface RedisStoreOptions {
  /**
   * A client of ioredis (5.4 or newer), iovalkey or node-redis (5 or newer): standalone, behind
   * Sentinel, or a Cluster. It is never closed. One of node-redis has to be connected or
   * connecting.
   */
  readonly client: RedisClient;
  /** Source of time and timers. Default: the system clock. */
  readonly clock?: Clock;
}

const CONNECTIONS: unique symbol = Symbol("graphql-cached.connections");

interface Connections {
  readonly errors: ConnectionErrors;
  readonly subscriber: Subscriber;
}

/** What the stores on a client share hangs on the port, and so on the client. */
function connectionsOf(port: ClientPort, clock: Clock): Connections {
  const shared = port as { [CONNECTIONS]?: Connections };
  shared[CONNECTIONS] ??= { errors: new ConnectionErrors(port), subscriber: new Subscriber(port, clock) };
  return shared[CONNECTIONS];
}

function storeOn(port: ClientPort, clock: Clock): Store {
  const { cluster } = port;
  /** All keys whose master the client does not know are on one node: they fail for one reason. */
  const nodeOf = cluster && ((key: string): string => cluster.masterOf(slotOfKey(key)) ?? "");
  const { errors, subscriber } = connectionsOf(port, clock);
  const invalidations = new RedisClock(port);
  const times = new ServerTimes(clock);
  let names: StoreNames | undefined;
  const channel = (): { readonly wakeChannel: string } => ({ wakeChannel: names?.wakeChannel ?? "" });
  /** The processes that report, by when their reports expire; names of reports begin with it. */
  const reports = (): string => `${names?.reports ?? ""}:{0}`;

  async function sendAll(commands: readonly Command[]): Promise<readonly unknown[]> {
    const replies = await send(port, commands);
    throwIfAnyFailed(replies);
    return replies;
  }

  return {
    name: cluster === undefined ? "redis" : "redis cluster",
    nodeOf,
    clockNode: nodeOf && (() => nodeOf(invalidations.logKey)),
    read: readerOn(port, clock, times, invalidations),
    appendClock: (records, lostEpoch) => appendToCopies(invalidations, records, lostEpoch),
    readClock: (from) => invalidations.read(from),
    async acquire(requests, { leaseMs, graceMs, patienceMs }, origin, holder) {
      const known = bytesOf([origin.epoch, origin.position]);
      const tokens = newTokens(requests.length, holder);
      const replies = await runScript(port, {
        script: acquire,
        keys: requests.map(keyOf),
        argsOf: (node) => ({ leaseMs, graceMs, notAfter: times.notAfter(node, patienceMs), known }),
        values: requests.map(({ oldestPosition, supersededAt, endsFreshness }, index) => [
          oldestPosition,
          tokens[index] as string,
          endsFreshness === true ? -supersededAt : supersededAt,
        ]),
        moreKeys: invalidations.key === undefined ? [] : [invalidations.key],
      });
      return replies.map((reply, index) => readGrant(reply, tokens[index] as string));
    },
    async storeValues(requests) {
      const values = requests.map((request) => {
        const { gen, grantedAt, ttlMs, body } = request;
        // Redis takes no parts of a millisecond. What is dropped at 0 is not stored.
        const dropAt = ttlMs === undefined ? Infinity : ttlMs === 0 ? 0 : Math.floor(grantedAt + ttlMs);
        return [gen, dropAt, body.length, ...entryParts(newValue(request)).toSpliced(1, 2)];
      });
      const keys = requests.map(keyOf);
      const replies = await runScript(port, { script: storeValues, keys, argsOf: channel, values });
      return replies.map((reply) => STORE_OUTCOMES.get(integerOf(reply)) ?? "unavailable");
    },
    async renew(holds, { leaseMs, graceMs }) {
      const values = holds.map(({ token }) => [token]);
      const argsOf = () => ({ leaseMs, graceMs });
      const replies = await runScript(port, { script: renew, keys: holds.map(keyOf), argsOf, values });
      // A lease whose state is unknown counts as held; the next renewal tries again.
      return replies.map((reply) => reply instanceof Error || integerOf(reply) === 1);
    },
    async release(releases) {
      const values = releases.map(({ token, outcome, holdMs, body }) => [
        token,
        outcome.slice(0, 1),
        Math.max(1, Math.round(holdMs)),
        body.length,
        body,
      ]);
      const replies = await runScript(port, { script: release, keys: releases.map(keyOf), argsOf: channel, values });
      return replies.map((reply) => integerOf(reply) === 1);
    },
    async remove(keys, { soft = false } = {}) {
      const callerId = randomBytes(8);
      const argsOf = () => ({ ...channel(), soft: Number(soft), callerId });
      const replies = await runScript(port, { script: remove, keys, argsOf });
      throwIfAnyFailed(replies.map((reply) => checkReply(reply, callerId)));
    },
    async writeReport(process, report, ttlMs) {
      // EXISTS also leads TIME to the node that has the reports.
      const [time, isWanted] = await sendAll([READ_TIME, { name: "EXISTS", args: [`${reports()}?`] }]);
      const now = timeOf(time);
      await sendAll([
        { name: "ZREMRANGEBYSCORE", args: [reports(), "-inf", now] },
        { name: "ZADD", args: [reports(), now + ttlMs, process] },
        { name: "PEXPIRE", args: [reports(), ttlMs] },
        { name: "SET", args: [`${reports()}:${process}`, Buffer.from(report), "PX", ttlMs] },
      ]);
      return integerOf(isWanted) === 1;
    },
    async readReports() {
      const wanted = { name: "SET", args: [`${reports()}?`, 1, "PX", REPORTS_WANTED_MS] };
      const newest = { name: "ZRANGE", args: [reports(), 0, MAX_REPORTS - 1, "REV"] };
      const [, members] = await sendAll([wanted, newest]);
      const processes = (members as readonly Buffer[]).map(String);
      if (processes.length === 0) return [];
      const [found] = await sendAll([{ name: "MGET", args: processes.map((process) => `${reports()}:${process}`) }]);
      return (found as readonly (Buffer | null)[]).filter((report) => report !== null);
    },
    open(opened, listener) {
      checkPrefix(names?.wakeChannel, opened.wakeChannel, "redisStore");
      names = opened;
      invalidations.open(opened.clock);
      const { wake, clockChanged, reconnected, connectionChanged } = listener;
      const onMessage = (message: Buffer | undefined): void => {
        const event = message === undefined ? LOST : readWakeup(message);
        if (event !== undefined) wake(...event);
      };
      const onFailure = (use: ConnectionFailure["use"]) => (error: Error | undefined) =>
        connectionChanged?.({ use, node: "", error });
      const stops = [
        // First, so that a cache knows that the store is back before it hears anything else.
        port.events.listen("ready", () => reconnected?.()),
        errors.watch(),
        subscriber.listen(opened.wakeChannel, { onMessage, onFailure: onFailure("wake-ups") }),
      ];
      if (clockChanged !== undefined)
        stops.push(subscriber.listen(opened.clock, { onMessage: clockChanged, onFailure: onFailure("memory") }));
      return () => {
        for (const stop of stops.splice(0)) stop();
      };
    },
    connectionTo: (node) => ({
      get error() {
        return errors.of(node);
      },
      received: port.bytesReceivedFrom?.(node),
    }),
  };
}

const MAX_REPORTS = 1_000;

const LOST: Parameters<Wake> = [undefined, undefined, undefined];
