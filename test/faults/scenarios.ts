import { MemcachedLab } from "../support/memcached-lab.js";
import type { CommandFault, MessageFault } from "../support/redis-faults.js";
import { RedisLab } from "../support/redis-lab.js";
import { FaultRig, PACE, type RigOptions, type StoreKind, type Totals } from "./rig.js";

/** Faults of one kind. */
export interface Scenario {
  readonly name: string;
  /** Default: Redis. */
  readonly stores?: readonly StoreKind[];
  /** See `RigOptions`. */
  readonly hasUser?: boolean;
  /** See `RigOptions`. */
  readonly processes?: number;
  /** See `Extent`. */
  readonly calmServedRatio?: number;
  /** Further options of the Redis server. */
  readonly server?: readonly string[];
  /** Whether it changes commands or messages on their way: a run in which it has not shows nothing. */
  readonly changes?: boolean;
  /** Makes the fault, waits for reads meanwhile, and ends the fault. */
  round(rig: FaultRig): Promise<void>;
}

const ALL: readonly StoreKind[] = ["redis", "cluster", "memcached"];
const REDIS: readonly StoreKind[] = ["redis", "cluster"];
const AOF = ["--appendonly", "yes", "--appendfsync", "always"];

const commandFault = (rig: FaultRig): CommandFault | undefined => {
  if (rig.random() > 0.08) return undefined;
  const kind = rig.pick(["delay", "late", "repeat", "repeat", "drop", "lose-reply"] as const);
  return kind === "drop" || kind === "lose-reply"
    ? { kind }
    : { kind, ms: rig.between(5, kind === "delay" ? 80 : 600) };
};
const messageFault = (rig: FaultRig): MessageFault | undefined => {
  if (rig.random() > 0.7) return undefined;
  const kind = rig.pick(["delay", "delay", "repeat", "repeat", "drop"] as const);
  return kind === "drop" ? { kind } : { kind, after: rig.between(5, 600) };
};

const netCut = async (rig: FaultRig): Promise<void> => {
  const proxies = rig.someProxies();
  for (const proxy of proxies) {
    proxy.isUp = false;
    proxy.cut();
  }
  await rig.reads(rig.between(50, 300));
  for (const proxy of proxies) proxy.isUp = true;
};

const hole = async (rig: FaultRig): Promise<void> => {
  const proxies = rig.someProxies();
  for (const proxy of proxies) proxy.openHole();
  await rig.reads(rig.between(50, 300));
  for (const proxy of proxies) proxy.closeHole();
};

const lateBytes = async (rig: FaultRig): Promise<void> => {
  const proxies = rig.someProxies();
  const direction = rig.pick(["requests", "replies"] as const);
  for (const proxy of proxies) proxy.hold(direction);
  await rig.reads(rig.between(20, 200));
  for (const proxy of proxies) proxy.deliver(direction);
  for (const proxy of proxies) proxy.latencyMs = rig.between(5, 40);
  await rig.reads(rig.between(50, 200));
  for (const proxy of proxies) proxy.latencyMs = 0;
};

const clientPause = async (rig: FaultRig): Promise<void> => {
  await rig.admin?.call("CLIENT", "PAUSE", rig.between(50, 900), rig.pick(["ALL", "WRITE"]));
  await rig.reads(rig.between(200, 500));
  await rig.admin?.call("CLIENT", "UNPAUSE");
};

const clientKill = async (rig: FaultRig): Promise<void> => {
  await rig.admin?.call("CLIENT", "KILL", "TYPE", rig.pick(["normal", "pubsub"]), "SKIPME", "yes");
  await rig.reads(rig.between(100, 300));
};

const flush = async (rig: FaultRig): Promise<void> => {
  await rig.confirmations(2);
  await rig.admin?.call(...rig.pick([["FLUSHALL"], ["FLUSHALL"], ["SCRIPT", "FLUSH"]] as [string, ...string[]][]));
  await rig.reads(rig.between(100, 300));
};

const restart = async (rig: FaultRig): Promise<void> => {
  const node = rig.pick(rig.nodes);
  await rig.confirmations(2);
  await node.kill();
  await rig.reads(rig.between(50, 200));
  await node.restart();
};

const restartFromSnapshot = async (rig: FaultRig): Promise<void> => {
  await rig.admin?.save();
  await rig.confirmations(20);
  await rig.expectingLoss(() => restart(rig));
};

/** Deletes one of the keys of the invalidation clock. */
const lostClockKey = async (rig: FaultRig): Promise<void> => {
  await rig.confirmations(2);
  await rig.deleteClockKey();
  await rig.reads(rig.between(100, 300));
};

/** Writes so much that the server evicts what was not used lately, the keys of the clock perhaps among it. */
const eviction = async (rig: FaultRig): Promise<void> => {
  await rig.confirmations(2);
  const junk = "x".repeat(10_000);
  for (let nth = 0; nth < 20; nth++) {
    const names = Array.from({ length: 50 }, () => ["set", `junk:${rig.random()}`, junk]);
    await rig.admin?.pipeline(names).exec();
    await rig.reads(20);
  }
};

/** Stops a process as a debugger or a suspended machine does, for a minute in all. */
const stoppedProcess = async (rig: FaultRig): Promise<void> => {
  await rig.stopped(12_000);
  await rig.reads(rig.between(100, 300));
};

const storm = async (rig: FaultRig): Promise<void> => {
  rig.storm({ perSecond: 1_000, forMs: 3_000 });
  await rig.confirmations(20);
  await rig.reads(500);
};

const manyTags = async (rig: FaultRig): Promise<void> => {
  await rig.invalidateTags(10_000);
  await rig.reads(rig.between(100, 300));
};

const faultyCommands = async (rig: FaultRig): Promise<void> => {
  for (const faults of rig.faults) faults.onCommand = () => commandFault(rig);
  await rig.reads(rig.between(300, 600));
  for (const faults of rig.faults) faults.onCommand = () => undefined;
};

const faultyMessages = async (rig: FaultRig): Promise<void> => {
  for (const faults of rig.faults) faults.onMessage = () => messageFault(rig);
  await rig.reads(rig.between(300, 600));
  for (const faults of rig.faults) faults.onMessage = () => undefined;
};

/**
 * Repeats each message after the next script that its process runs for the same key. If that requests the lease
 * after an invalidation, the message of the load before it arrives while a reader waits for the load after it.
 */
const repeatedMessages = async (rig: FaultRig): Promise<void> => {
  for (const faults of rig.faults) {
    const held: { readonly payload: Buffer; readonly repeat: () => void }[] = [];
    faults.onMessage = (payload) => ({
      kind: "repeat",
      after: new Promise<void>((resolve) => held.push({ payload, repeat: () => setTimeout(resolve, 2) })),
    });
    faults.onCommand = ({ name, args }) => {
      const [, , ...keys] = name === "EVALSHA" ? args : [];
      const isOfKey = (payload: Buffer): boolean => keys.some((key) => key.length > 40 && payload.includes(key));
      for (const one of held.splice(0))
        if (isOfKey(one.payload)) one.repeat();
        else held.push(one);
      return undefined;
    };
  }
  await rig.reads(rig.between(300, 600));
  for (const faults of rig.faults) faults.reset();
};

const rotateCredentials = async (rig: FaultRig): Promise<void> => {
  await rig.rotateCredentials();
  await rig.reads(rig.between(50, 200));
};

const convoy = (rig: FaultRig): Promise<void> => rig.convoy();

/** Several faults at the same time, in a random order. */
const chaos = async (rig: FaultRig): Promise<void> => {
  const rounds = [netCut, hole, lateBytes, clientPause, clientKill, flush, restart];
  await Promise.all([faultyCommands(rig), faultyMessages(rig), rig.pick(rounds)(rig)]);
};

/** Replaces one process by one of the other release: in each round the next, so after all of them it is a rollback. */
const rollingDeploy = async (rig: FaultRig): Promise<void> => {
  await rig.deployNext();
  await rig.reads(rig.between(100, 200));
};

export const SCENARIOS: readonly Scenario[] = [
  { name: "calm", stores: ALL, round: (rig) => rig.reads(300) },
  { name: "net cut", stores: ALL, round: netCut },
  { name: "hole", stores: ALL, round: hole },
  { name: "late bytes", stores: ALL, round: lateBytes },
  { name: "client pause", stores: REDIS, round: clientPause },
  { name: "client kill", stores: REDIS, round: clientKill },
  { name: "flush", stores: REDIS, round: flush },
  { name: "restart with data", server: AOF, round: restart },
  { name: "restart without data", stores: ["redis", "memcached"], round: restart },
  { name: "restart from an older snapshot", round: restartFromSnapshot },
  { name: "lost clock key", stores: REDIS, round: lostClockKey },
  { name: "eviction", server: ["--maxmemory", "6mb", "--maxmemory-policy", "allkeys-lru"], round: eviction },
  { name: "stopped process", round: stoppedProcess },
  { name: "storm", stores: REDIS, round: storm },
  { name: "many tags", stores: ALL, round: manyTags },
  { name: "commands", stores: REDIS, changes: true, round: faultyCommands },
  { name: "messages", stores: REDIS, changes: true, round: faultyMessages },
  { name: "repeated messages", stores: REDIS, changes: true, round: repeatedMessages },
  { name: "rotate credentials", hasUser: true, round: rotateCredentials },
  // On Redis alone: the proxies of twelve processes and three nodes would be slower than the nodes. On memcached, waiters ask every 400 ms.
  { name: "convoy", processes: 12, calmServedRatio: 0.5, round: convoy },
  { name: "rolling deploy", stores: ALL, round: rollingDeploy },
  { name: "chaos", server: AOF, changes: true, round: chaos },
];

export interface RunResult extends Totals {
  readonly seconds: number;
  /** Confirmed invalidations while a fault was there. */
  readonly confirmedDuringFaults: number;
  /** Commands and messages that were changed on their way. */
  readonly changed: number;
  readonly changes: boolean;
  /** Hits among the reads of the calm phase after the faults. */
  readonly calmHitRatio: number;
  /** Reads of the calm phase that were served from an entry, fresh or stale. Soft invalidations leave stale ones. */
  readonly calmServedRatio: number;
  /** How the reads of the calm phase ended. */
  readonly calmOutcomes: Readonly<Record<string, number>>;
}

/** How long a run lasts at least. */
export interface Extent {
  readonly hits: number;
  readonly confirmed: number;
  readonly rounds: number;
  /** Reads of the calm phase. */
  readonly calmReads: number;
  /** The least ratio of those among them that are served from an entry. Default: 0.8. A quarter of it must be hits. */
  readonly calmServedRatio?: number;
}

/**
 * Runs a scenario: faults in rounds, each followed by reads without a fault, until the run has its extent, and a
 * calm phase after the processes have recovered.
 */
export async function runScenario(
  { round, changes = false }: Scenario,
  rig: FaultRig,
  extent: Extent,
): Promise<RunResult> {
  const startedAt = performance.now();
  let confirmedDuringFaults = 0;
  const isLongEnough = (rounds: number): boolean => {
    const { hits, confirmed } = rig.totals();
    return rounds >= extent.rounds && hits >= extent.hits && confirmed >= extent.confirmed;
  };
  for (let rounds = 0; !isLongEnough(rounds); rounds++) {
    const before = rig.totals().confirmed;
    rig.setPace(PACE.fault);
    await round(rig);
    confirmedDuringFaults += rig.totals().confirmed - before;
    rig.setPace(PACE.calm);
    await rig.hits(10);
  }
  await rig.recovered();
  const before = rig.totals();
  await rig.reads(extent.calmReads);
  const totals = rig.totals();
  const calmReads = totals.reads - before.reads;
  const calmHits = totals.hits - before.hits;
  const calmOutcomes = Object.fromEntries(
    Object.entries(totals.outcomes).map(([name, count]) => [name, count - (before.outcomes[name] ?? 0)]),
  );
  return {
    ...totals,
    seconds: (performance.now() - startedAt) / 1_000,
    confirmedDuringFaults,
    changed: rig.faults.reduce((sum, { count }) => sum + count, 0),
    changes,
    calmOutcomes,
    calmHitRatio: calmHits / calmReads,
    calmServedRatio: (calmHits + (calmOutcomes.stale ?? 0)) / calmReads,
  };
}

/** Starts servers and processes, runs one scenario, and stops them. */
export async function runOnServers(
  scenario: Scenario,
  extent: Extent,
  { store, ...options }: Omit<RigOptions, "nodes">,
): Promise<RunResult> {
  const lab = store === "memcached" ? new MemcachedLab() : new RedisLab();
  try {
    const isCluster = store === "cluster" && lab instanceof RedisLab;
    const nodes = isCluster ? await lab.cluster() : [await lab.standalone(...(scenario.server ?? []))];
    const { hasUser = false, processes = 3 } = scenario;
    const rig = await FaultRig.start({ processes, ...options, store, nodes, hasUser });
    try {
      return await runScenario(scenario, rig, extent);
    } finally {
      await rig.stop();
    }
  } finally {
    await lab.stop();
  }
}

/** Returns what a run must not show. */
export function violationsOf(result: RunResult, extent: Extent): string[] {
  const { calmServedRatio = 0.8 } = extent;
  const expected: [boolean, string][] = [
    ...result.convoys.map(({ loads, loadsInTurn, beganAt, endedAt, joinedAt }): [boolean, string] => {
      const ratio = (joinedAt - beganAt) / (endedAt - beganAt);
      const loaded = `${loads} loads, ${loadsInTurn} in turn`;
      return [
        loadsInTurn === 0 && ratio <= 1.1,
        `expected a value after 1.1 loads, got ${ratio.toFixed(2)}: ${loaded}`,
      ];
    }),
    [result.stale === 0, `expected no stale reads, got ${result.stale}`],
    [result.failed === 0, `expected no failed reads, got ${result.failed}`],
    [result.maxLoads <= 2, `expected at most 2 loads of a key at a time in a process, got ${result.maxLoads}`],
    [result.hits >= extent.hits, `expected at least ${extent.hits} hits, got ${result.hits}`],
    [
      result.confirmed >= extent.confirmed,
      `expected ${extent.confirmed} confirmed invalidations, got ${result.confirmed}`,
    ],
    [result.confirmedDuringLoads > 0, "expected invalidations during loads, got none"],
    [!result.changes || result.changed > 0, "expected commands or messages to be changed on their way, got none"],
    [
      result.calmServedRatio >= calmServedRatio,
      `expected ${calmServedRatio} of the reads of the calm phase to be served from entries, got ${result.calmServedRatio.toFixed(2)}`,
    ],
    [
      result.calmHitRatio >= calmServedRatio / 4,
      `expected a hit ratio of ${calmServedRatio / 4} in the calm phase, got ${result.calmHitRatio.toFixed(2)}`,
    ],
  ];
  return expected.filter(([isMet]) => !isMet).map(([, violation]) => violation);
}
