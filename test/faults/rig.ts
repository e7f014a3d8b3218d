import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";
import { RedisFaults } from "../support/redis-faults.js";
import type { Address, LabNode } from "../support/redis-lab.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import type { Counts, FromProcess, InvalidationKind, ProcessSettings, ToProcess } from "./process.js";

export type StoreKind = ProcessSettings["store"];

export interface RigOptions {
  readonly store: StoreKind;
  readonly nodes: readonly LabNode[];
  readonly seed: number;
  /** Whether the processes have a user of their own on a single Redis server, whose password can be replaced. */
  readonly hasUser?: boolean;
  /** Default: 3. */
  readonly processes?: number;
  /** How values are invalidated. Default: by key and by tags. */
  readonly kinds?: readonly InvalidationKind[];
  /** Whether whole responses are stored as well. Default: false. */
  readonly keepsResponses?: boolean;
  readonly keepsInMemory?: boolean;
  /** The path of the compiled `process.ts`, from where the package is found. */
  readonly program: string;
}

/** What a run has seen, summed over its processes. */
export interface Totals extends Omit<Counts, "violations" | "outcomes" | "hitsAtLastLoss"> {
  /** Confirmed invalidations of keys that were being loaded when their value changed. */
  readonly confirmedDuringLoads: number;
  readonly violations: readonly string[];
  readonly outcomes: Readonly<Record<string, number>>;
  readonly convoys: readonly Convoy[];
}

/** All processes that wait for one load whose value is not kept. */
export interface Convoy {
  loads: number;
  /** Loads that began after another one had ended. */
  loadsInTurn: number;
  /** When the first load began and ended, and when all processes had the value. */
  beganAt: number;
  endedAt: number;
  joinedAt: number;
}

/** One process, and the network between it and each node of the store. */
interface Member {
  readonly child: ChildProcess;
  readonly proxies: readonly TcpProxy[];
  readonly release: 1 | 2;
  /** The number of loads that run, by key. */
  readonly running: Map<string, number>;
  counts: Counts | undefined;
}

const WAIT_MS = 45_000;
const USERNAME = "shop";
/** Twice by key, since only a message of an entry without tags could be mistaken for a later one. */
const KINDS: readonly InvalidationKind[] = ["key", "key", "tag", "result-tag", "loader-tag"];

/** How many reads a process makes for one invalidation. */
export const PACE = { calm: 100, fault: 10 };

/**
 * Processes that read and invalidate all the time, each behind a bad network of its own, and the source of their
 * values. The source counts versions: a write makes the next one and is then invalidated.
 */
export class FaultRig {
  readonly nodes: readonly LabNode[];
  /** Faults of single commands and messages, for each process. */
  readonly faults: readonly RedisFaults[];
  /** Connected to the first node, if the store is Redis, not through a proxy. */
  readonly admin: Redis | undefined;
  readonly #members: Member[] = [];
  /** What processes have counted that were replaced. */
  readonly #countsOfEnded: Counts[] = [];
  readonly #confirmed = new Map<string, number>();
  readonly #versions = new Map<string, number>();
  /** The versions that were written during a load of their key. */
  readonly #writtenDuringLoads = new Set<string>();
  #confirmedDuringLoads = 0;
  #pace = PACE.calm;
  /** How many processes were replaced. */
  #deployed = 0;
  readonly #convoys: Convoy[] = [];
  #joined = 0;
  #state: number;
  readonly #options: RigOptions;
  readonly #prefix = `faults-${randomUUID()}`;
  #password: string = randomUUID();

  private constructor(options: RigOptions, faults: readonly RedisFaults[], admin: Redis | undefined) {
    this.#options = options;
    this.nodes = options.nodes;
    this.faults = faults;
    this.admin = admin;
    this.#state = options.seed;
  }

  /** Starts the processes and waits until all of them have served hits. */
  static async start(options: RigOptions): Promise<FaultRig> {
    const { store, nodes, processes = 3 } = options;
    const faults = Array.from({ length: processes }, () => new RedisFaults());
    const [first] = nodes as [LabNode];
    const admin = store === "memcached" ? undefined : new Redis(first.port, first.host).on("error", () => undefined);
    const rig = new FaultRig(options, faults, admin);
    if (options.hasUser === true) await rig.#setPassword();
    for (const [nth, own] of faults.entries()) {
      const proxies = await Promise.all(
        nodes.map((node) => TcpProxy.before(node, store === "memcached" ? undefined : own.filter)),
      );
      rig.#startProcess(nth, proxies, 1);
    }
    try {
      await rig.recovered();
    } catch (error) {
      await rig.stop();
      throw error;
    }
    return rig;
  }

  #startProcess(nth: number, proxies: readonly TcpProxy[], release: 1 | 2): void {
    const {
      store,
      nodes,
      seed,
      kinds = KINDS,
      keepsResponses = false,
      keepsInMemory = true,
      hasUser,
      program,
    } = this.#options;
    const settings: ProcessSettings = {
      store,
      addresses: proxies.map(({ host, port }, index) => ({ host, port, actualPort: (nodes[index] as Address).port })),
      ...(hasUser === true ? { user: { username: USERNAME, password: this.#password } } : {}),
      prefix: this.#prefix,
      seed: seed * 31 + nth,
      kinds,
      keepsResponses,
      keepsInMemory,
      release,
      confirmed: Object.fromEntries(this.#confirmed),
    };
    const child = fork(program, {
      env: { ...process.env, NODE_ENV: "production", FAULT_PROCESS: JSON.stringify(settings) },
    });
    this.#listen(nth, { child, proxies, release, running: new Map(), counts: undefined });
  }

  /**
   * Ends the process that is the next in turn, and starts one of the other release in its place. Resolves when that
   * one serves hits. The other processes go on.
   */
  async deployNext(): Promise<void> {
    const nth = this.#deployed++ % this.#members.length;
    const member = this.#members[nth] as Member;
    const { child, proxies, release } = member;
    child.kill("SIGKILL");
    // What it has sent arrives before that.
    await once(child, "close");
    child.removeAllListeners("message");
    if (member.counts !== undefined) this.#countsOfEnded.push(member.counts);
    this.#startProcess(nth, proxies, release === 1 ? 2 : 1);
    await this.until("the new process serves hits", () => ((this.#members[nth] as Member).counts?.hits ?? 0) > 0);
    this.setPace(this.#pace);
  }

  /**
   * Gives the user of the processes another password, and closes their connections. Each process learns the password, as
   * one does whose tokens expire, before that or after. Resolves when all of them receive wake-ups again.
   */
  async rotateCredentials(): Promise<void> {
    this.#password = randomUUID();
    const tell = (): void => this.#broadcast({ do: "password", password: this.#password });
    const isInTime = this.random() < 0.5;
    if (isInTime) tell();
    await this.#setPassword();
    const type = this.pick([[], ["TYPE", "pubsub"]]);
    await this.admin?.call("CLIENT", "KILL", "USER", USERNAME, ...type);
    await this.reads(this.between(50, 200));
    if (!isInTime) tell();
    let listening = 0;
    await this.until("all processes receive wake-ups again", () => {
      void this.admin?.pubsub("NUMSUB", `${this.#prefix}:#wake`).then(([, count]) => {
        listening = Number(count);
      });
      return listening === this.#members.length;
    });
  }

  /** Lets all processes read one key whose value is not kept, and resolves when all of them have it. */
  async convoy(): Promise<void> {
    const convoy: Convoy = { loads: 0, loadsInTurn: 0, beganAt: 0, endedAt: 0, joinedAt: 0 };
    this.#convoys.push(convoy);
    this.#joined = 0;
    this.#broadcast({ do: "join", id: String(this.#convoys.length) });
    await this.until("all processes have the value", () => this.#joined === this.#members.length);
    convoy.joinedAt = performance.now();
  }

  /** Lets one process invalidate `count` tags in one call. Resolves when it has. */
  async invalidateTags(count: number): Promise<void> {
    this.#joined = 0;
    const { child } = this.pick(this.#members);
    child.send({ do: "invalidate-tags", count } satisfies ToProcess);
    await this.until("the tags are invalidated", () => this.#joined === 1);
  }

  /** Lets one process invalidate tags that no value has. */
  storm(storm: { readonly perSecond: number; readonly forMs: number }): void {
    this.pick(this.#members).child.send({ do: "storm", ...storm } satisfies ToProcess);
  }

  /** Stops one process with a signal that it cannot handle, and lets it go on after `ms`. */
  async stopped(ms: number): Promise<void> {
    const { child } = this.pick(this.#members);
    child.kill("SIGSTOP");
    await pause(ms);
    child.kill("SIGCONT");
  }

  /** Deletes one of the keys of the invalidation clock, on whichever node. */
  async deleteClockKey(): Promise<void> {
    const found: { readonly node: LabNode; readonly key: string }[] = [];
    const onNode = async <T>({ host, port }: Address, use: (client: Redis) => Promise<T>): Promise<T> => {
      const client = new Redis(port, host).on("error", () => undefined);
      return use(client).finally(() => client.disconnect());
    };
    for (const node of this.nodes)
      for (const key of await onNode(node, (client) => client.keys(`${this.#prefix}:#clock*`)))
        found.push({ node, key });
    const { node, key } = this.pick(found);
    await onNode(node, (client) => client.del(key));
  }

  async #setPassword(): Promise<void> {
    const rules = ["reset", "on", `>${this.#password}`, "allkeys", "allchannels", "allcommands"];
    await this.admin?.call("ACL", "SETUSER", USERNAME, ...rules);
  }

  /** Returns a number from 0 to 1, the same sequence for the same seed (mulberry32). */
  readonly random = (): number => {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };

  /** Returns an integer from `least` to `most`. */
  between(least: number, most: number): number {
    return least + Math.floor(this.random() * (most - least + 1));
  }

  pick<T>(items: readonly T[]): T {
    return items[this.between(0, items.length - 1)] as T;
  }

  /** Returns the network of one random process, or each third time those of all. */
  someProxies(): readonly TcpProxy[] {
    const chosen = this.between(0, 2) === 0 ? this.#members : [this.pick(this.#members)];
    return chosen.flatMap(({ proxies }) => proxies);
  }

  setPace(reads: number): void {
    this.#pace = reads;
    this.#broadcast({ do: "pace", reads });
  }

  /** Resolves once `count` more reads have ended, at whatever process. */
  async reads(count: number): Promise<void> {
    const wanted = this.totals().reads + count;
    await this.until(`${count} more reads have ended`, () => this.totals().reads >= wanted);
  }

  /** Resolves once `count` more invalidations were confirmed, at whatever process. */
  async confirmations(count: number): Promise<void> {
    const wanted = this.totals().confirmed + count;
    await this.until(`${count} more invalidations are confirmed`, () => this.totals().confirmed >= wanted);
  }

  /** Resolves once every process has served 20 more hits and has confirmed one more invalidation. */
  async recovered(): Promise<void> {
    await this.until("every process has started", () => this.#members.every(({ counts }) => counts !== undefined));
    this.setPace(PACE.calm);
    const before = this.#members.map(({ counts }) => (counts as Counts).confirmed);
    await this.hits(20);
    await this.until("every process confirms invalidations", () =>
      this.#members.every(({ counts }, nth) => (counts as Counts).confirmed > (before[nth] as number)),
    );
  }

  /** Resolves once every process has served `count` more hits. */
  async hits(count: number): Promise<void> {
    const before = this.#members.map(({ counts }) => (counts as Counts).hits);
    await this.until(`every process has served ${count} more hits`, () =>
      this.#members.every(({ counts }, nth) => (counts as Counts).hits >= (before[nth] as number) + count),
    );
  }

  /**
   * Runs `action`, after which Redis may have lost confirmed invalidations. Stale reads are counted apart until
   * every process has served 200 hits without one.
   */
  async expectingLoss(action: () => Promise<void>): Promise<void> {
    this.#broadcast({ do: "expect-loss", isExpected: true });
    await this.reads(50);
    await action();
    const before = this.#members.map(({ counts }) => (counts as Counts).hits);
    await this.until("no process reads what was restored", () =>
      this.#members.every(({ counts }, nth) => {
        const { hits, hitsAtLastLoss } = counts as Counts;
        return hits >= Math.max(before[nth] as number, hitsAtLastLoss) + 200;
      }),
    );
    this.#broadcast({ do: "expect-loss", isExpected: false });
  }

  totals(): Totals {
    const all = [...this.#countsOfEnded, ...this.#members.flatMap(({ counts }) => counts ?? [])];
    const sum = (name: Exclude<keyof Counts, "violations" | "outcomes">): number =>
      all.reduce((total, counts) => total + counts[name], 0);
    const outcomes: Record<string, number> = {};
    for (const counts of all)
      for (const [name, count] of Object.entries(counts.outcomes)) outcomes[name] = (outcomes[name] ?? 0) + count;
    return {
      reads: sum("reads"),
      hits: sum("hits"),
      loads: sum("loads"),
      confirmed: sum("confirmed"),
      confirmedDuringLoads: this.#confirmedDuringLoads,
      unconfirmed: sum("unconfirmed"),
      stale: sum("stale"),
      softlyStale: sum("softlyStale"),
      staleAfterLoss: sum("staleAfterLoss"),
      failed: sum("failed"),
      maxLoads: Math.max(0, ...all.map(({ maxLoads }) => maxLoads)),
      violations: all.flatMap(({ violations }) => violations),
      outcomes,
      convoys: this.#convoys,
    };
  }

  /** Polls, because the processes report every few milliseconds. */
  async until(what: string, condition: () => boolean): Promise<void> {
    const deadline = performance.now() + WAIT_MS;
    while (!condition()) {
      const ended = this.#members.find(({ child }) => child.exitCode !== null);
      if (ended !== undefined) throw new Error(`a process ended with code ${ended.child.exitCode}`);
      if (performance.now() > deadline)
        throw new Error(`timed out after ${WAIT_MS} ms, waiting until ${what}: ${JSON.stringify(this.totals())}`);
      await pause(5);
    }
  }

  async stop(): Promise<void> {
    this.admin?.disconnect();
    for (const { child } of this.#members) child.kill("SIGKILL");
    await Promise.all(this.#members.flatMap(({ proxies }) => proxies.map((proxy) => proxy.close())));
  }

  #listen(nth: number, member: Member): void {
    this.#members[nth] = member;
    const { child } = member;
    child.on("message", (message: FromProcess) => {
      if (message.do === "count") member.counts = message.counts;
      else if (message.do === "joined") this.#joined++;
      else if (message.do === "load" || message.do === "write") {
        const version = message.do === "load" ? this.#load(member, message.key) : this.#write(message.key);
        if (child.connected) child.send({ do: "answer", nth: message.nth, version } satisfies ToProcess);
      } else if (message.do === "loaded") this.#endLoad(member, message.key);
      else if (message.do === "confirmed") this.#confirm(child, message.key, message.version);
      else if (message.do === "refreshed") this.#tellOthers(child, message);
    });
  }

  #load({ running }: Member, key: string): number {
    const convoy = this.#convoyOf(key);
    if (convoy !== undefined) {
      if (convoy.loads++ === 0) convoy.beganAt = performance.now();
      if (convoy.endedAt > 0) convoy.loadsInTurn++;
    }
    running.set(key, (running.get(key) ?? 0) + 1);
    return this.#versions.get(key) ?? 0;
  }

  #endLoad({ running }: Member, key: string): void {
    running.set(key, (running.get(key) ?? 0) - 1);
    const convoy = this.#convoyOf(key);
    if (convoy?.endedAt === 0) convoy.endedAt = performance.now();
  }

  #convoyOf(key: string): Convoy | undefined {
    return key === `unkept ${this.#convoys.length}` ? this.#convoys.at(-1) : undefined;
  }

  #write(key: string): number {
    const version = (this.#versions.get(key) ?? 0) + 1;
    this.#versions.set(key, version);
    if (this.#members.some(({ running }) => (running.get(key) ?? 0) > 0))
      this.#writtenDuringLoads.add(`${key} ${version}`);
    return version;
  }

  #confirm(by: ChildProcess, key: string, version: number): void {
    if (this.#writtenDuringLoads.has(`${key} ${version}`)) this.#confirmedDuringLoads++;
    this.#confirmed.set(key, Math.max(version, this.#confirmed.get(key) ?? 0));
    this.#tellOthers(by, { do: "confirmed", key, version });
  }

  #tellOthers(by: ChildProcess, message: ToProcess): void {
    for (const { child } of this.#members) if (child !== by && child.connected) child.send(message);
  }

  #broadcast(message: ToProcess): void {
    for (const { child } of this.#members) if (child.connected) child.send(message);
  }
}
