/** The commands of a process that serves the shop. */
import { ApolloServer } from "@apollo/server";
import type { Redis } from "ioredis";
import { type Random, seededRandom } from "../seeded-random.js";
import { PAGE_CONTENDERS, RESPONSE_CONTENDERS } from "./contenders.js";
import type { Visited } from "./mistakes.js";
import {
  countStale,
  IDS,
  ITEM_VALUES,
  itemsOf,
  MUTATION,
  OTHER_QUERIES,
  type PageOfCategory,
  QUERY,
  type ShopContext,
  ShopSource,
} from "./shop.js";
import { zipf } from "./zipf.js";

/** What a process is started with. */
export interface PageSetup {
  readonly contender: string;
  readonly prefix: string;
  readonly library?: string;
  /** The version of all items. It has to be newer than what earlier processes have stored. Default: 0. */
  readonly firstVersion?: number;
}

/** Callers that send one request after another. */
export interface Visit {
  readonly callers: number;
  readonly requests: number;
  /** How long a call of the source takes. */
  readonly callMs: number;
  /** Decides what is requested, in which order. */
  readonly seed: number;
  /**
   * - `popular`: categories by Zipf's law, several queries, and mutations. The default.
   * - `all`: the same, but one category after the other.
   * - `new`: one query for categories that nobody has opened before, none of whose values is stored, and no mutations.
   */
  readonly kind?: "popular" | "all" | "new";
}

export interface VisitReport extends Visited {
  readonly elapsedMs: number;
  /** The CPU time of the process. */
  readonly cpuMs: number;
  /** How long each request took. */
  readonly waits: readonly number[];
  readonly sourceCalls: number;
  readonly keysLoaded: number;
}

const OTHER_QUERY_SHARE = 0.3;
const MUTATION_SHARE = 0.02;

/** A page that somebody opens, or an item that somebody changes. */
type Request = { readonly category: number; readonly query: string } | { readonly item: number };

/** Returns a function that makes requests. `nextCategory` overrules Zipf's law. */
function requestsOf(random: Random, nextCategory?: () => number): () => Request {
  const popular = zipf(IDS, random);
  return () => {
    if (random() < MUTATION_SHARE) return { item: popular() };
    const category = (nextCategory ?? popular)();
    if (random() >= OTHER_QUERY_SHARE) return { category, query: QUERY };
    return { category, query: OTHER_QUERIES[Math.floor(random() * OTHER_QUERIES.length)] as string };
  };
}

/** A clock that runs while the process is asked for something. */
class ServingClock {
  #servedMs = 0;
  #startedAt: number | undefined;

  readonly now = (): number =>
    this.#servedMs + (this.#startedAt === undefined ? 0 : performance.now() - this.#startedAt);

  start(): void {
    this.#startedAt = performance.now();
  }

  stop(): void {
    this.#servedMs = this.now();
    this.#startedAt = undefined;
  }
}

export async function open(setup: PageSetup, client: Redis) {
  const { contender: name, prefix, library, firstVersion = 0 } = setup;
  const contender = [...PAGE_CONTENDERS, ...RESPONSE_CONTENDERS].find((one) => one.name === name);
  if (contender === undefined) throw new Error(`page: expected a contender, got ${name}`);
  const source = new ShopSource(firstVersion);
  const clock = new ServingClock();
  const { now } = clock;
  const shop = await contender.open({ client, prefix, source, now, ...(library === undefined ? {} : { library }) });
  const server = new ApolloServer<ShopContext>({ schema: shop.schema, plugins: [...(shop.plugins ?? [])] });
  await server.start();
  const change = async (id: string): Promise<number> => {
    const version = await source.change(id);
    await shop.invalidate?.(id);
    return version;
  };
  /** The version of each item whose invalidation has been confirmed to a caller. */
  const confirmed = new Int32Array(IDS);
  let newCategories = 0;

  const execute = async <Data>(query: string, id: number): Promise<Data> => {
    const contextValue = { loaders: shop.loaders(), change };
    const { body } = await server.executeOperation({ query, variables: { id: String(id) } }, { contextValue });
    if (body.kind !== "single") throw new Error("expected a single result");
    if (body.singleResult.errors !== undefined) throw new Error(body.singleResult.errors[0]?.message);
    return body.singleResult.data as Data;
  };

  const requestsOfVisit = ({ kind = "popular", seed }: Visit): (() => Request) => {
    if (kind === "new") return () => ({ category: IDS + newCategories++, query: QUERY });
    let opened = 0;
    return requestsOf(seededRandom(seed), kind === "all" ? () => opened++ % IDS : undefined);
  };

  const visit = async (visit: Visit): Promise<VisitReport> => {
    const { callers, requests, callMs } = visit;
    source.callMs = callMs;
    const next = requestsOfVisit(visit);
    const waits: number[] = [];
    let [started, mutations, values, staleValues, errors] = [0, 0, 0, 0, 0];
    const send = async (request: Request): Promise<void> => {
      if ("item" in request) {
        const { item } = request;
        mutations++;
        const { change } = await execute<{ change: number }>(MUTATION, item);
        confirmed[item] = Math.max(confirmed[item] ?? 0, change);
        return;
      }
      const { category, query } = request;
      const versions = itemsOf(category).map((item) => confirmed[item] ?? 0);
      const page = await execute<{ category: PageOfCategory }>(query, category);
      values += ITEM_VALUES;
      staleValues += countStale(page.category, versions);
    };
    const { calls, keys } = source;
    const cpu = process.cpuUsage();
    const startedAt = performance.now();
    clock.start();
    const call = async (): Promise<void> => {
      for (let at = performance.now(); started < requests; ) {
        started++;
        // In a turn of its own, as a request that arrives by HTTP: one that waits for nothing would hold up all others.
        await new Promise((resolve) => setImmediate(resolve));
        await send(next()).catch(() => errors++);
        const now = performance.now();
        waits.push(now - at);
        at = now;
      }
    };
    await Promise.all(Array.from({ length: callers }, call));
    clock.stop();
    const elapsedMs = performance.now() - startedAt;
    const { user, system } = process.cpuUsage(cpu);
    return {
      elapsedMs,
      cpuMs: (user + system) / 1e3,
      waits,
      requests: started,
      mutations,
      sourceCalls: source.calls - calls,
      keysLoaded: source.keys - keys,
      values,
      staleValues,
      errors,
    };
  };
  return { visit };
}

export type PageCommands = Awaited<ReturnType<typeof open>>;
