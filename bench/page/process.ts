/** The commands of a process that serves the shop. */
import { ApolloServer } from "@apollo/server";
import type { Redis } from "ioredis";
import { type Random, seededRandom } from "../seeded-random.js";
import { PAGE_CONTENDERS, RESPONSE_CONTENDERS } from "./contenders.js";
import {
  countStale,
  firstItemOf,
  IDS,
  ITEMS,
  MUTATION,
  type PageOfCategory,
  QUERIES,
  type ShopContext,
  ShopSource,
} from "./shop.js";

/** What a process is started with. */
export interface PageSetup {
  readonly contender: string;
  readonly prefix: string;
  readonly library?: string;
}

/** Callers that send one request after another, until a number of requests or a time is over. */
export interface Visit {
  readonly callers: number;
  readonly requests?: number;
  readonly forMs?: number;
  /** How long a call of the source takes. */
  readonly callMs: number;
  /** Decides what is requested, in which order. */
  readonly seed: number;
}

export interface VisitReport {
  readonly elapsedMs: number;
  /** The CPU time of the process. */
  readonly cpuMs: number;
  /** How long each request took, and when it ended, counted from the start. */
  readonly waits: readonly number[];
  readonly endedAt: readonly number[];
  readonly sourceCalls: number;
  /** The values of items that were returned, and how many of them were stale when their request began. */
  readonly values: number;
  readonly staleValues: number;
  /** Requests that failed. An invalidation that failed is not confirmed. */
  readonly errors: number;
}

const OTHER_QUERY_SHARE = 0.3;
const MUTATION_SHARE = 0.02;

/** A page that somebody opens, or an item that somebody buys. */
type Request = { readonly category: number; readonly query: string } | { readonly item: number };

/** Returns a function that makes requests. Their ids are by Zipf's law: rank r is 1 / (r + 1) as frequent as the first. */
function requestsOf(random: Random): () => Request {
  const [query, otherQuery] = QUERIES;
  const sums = new Float64Array(IDS);
  let total = 0;
  for (let rank = 0; rank < IDS; rank++) sums[rank] = total += 1 / (rank + 1);
  const id = (): number => {
    const at = random() * total;
    let [low, high] = [0, IDS - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] as number) > at) high = middle;
      else low = middle + 1;
    }
    return low;
  };
  return () => {
    if (random() < MUTATION_SHARE) return { item: id() };
    return { category: id(), query: random() < OTHER_QUERY_SHARE ? otherQuery : query };
  };
}

export async function open(setup: PageSetup, client: Redis) {
  const { contender: name, prefix, library } = setup;
  const contender = [...PAGE_CONTENDERS, ...RESPONSE_CONTENDERS].find((one) => one.name === name);
  if (contender === undefined) throw new Error(`page: expected a contender, got ${name}`);
  const source = new ShopSource();
  const shop = await contender.open({ client, prefix, source, ...(library === undefined ? {} : { library }) });
  const server = new ApolloServer<ShopContext>({ schema: shop.schema, plugins: [...(shop.plugins ?? [])] });
  await server.start();
  const sell = async (id: string): Promise<number> => {
    const version = await source.sell(id);
    await shop.invalidate?.(id);
    return version;
  };
  /** The version of each item whose invalidation has been confirmed to a caller. */
  const confirmed = new Int32Array(IDS);

  const execute = async <Data>(query: string, id: number): Promise<Data> => {
    const contextValue = { loaders: shop.loaders(), sell };
    const { body } = await server.executeOperation({ query, variables: { id: String(id) } }, { contextValue });
    if (body.kind !== "single") throw new Error("expected a single result");
    if (body.singleResult.errors !== undefined) throw new Error(body.singleResult.errors[0]?.message);
    return body.singleResult.data as Data;
  };

  const visit = async (visit: Visit): Promise<VisitReport> => {
    const { callers, requests = Number.POSITIVE_INFINITY, forMs, callMs, seed } = visit;
    source.callMs = callMs;
    const next = requestsOf(seededRandom(seed));
    const waits: number[] = [];
    const endedAt: number[] = [];
    let [started, values, staleValues, errors] = [0, 0, 0, 0];
    const send = async (request: Request): Promise<void> => {
      if ("item" in request) {
        const { item } = request;
        const { sell } = await execute<{ sell: { version: number } }>(MUTATION, item);
        confirmed[item] = Math.max(confirmed[item] ?? 0, sell.version);
        return;
      }
      const { category, query } = request;
      const first = firstItemOf(category);
      const versions = confirmed.slice(first, first + ITEMS);
      const page = await execute<{ category: PageOfCategory }>(query, category);
      values += 3 * ITEMS;
      staleValues += countStale(page.category, versions);
    };
    const calls = source.calls;
    const cpu = process.cpuUsage();
    const startedAt = performance.now();
    const endsAt = forMs === undefined ? Number.POSITIVE_INFINITY : startedAt + forMs;
    const call = async (): Promise<void> => {
      for (let at = performance.now(); at < endsAt && started < requests; ) {
        started++;
        await send(next()).catch(() => errors++);
        const now = performance.now();
        waits.push(now - at);
        endedAt.push(now - startedAt);
        at = now;
      }
    };
    await Promise.all(Array.from({ length: callers }, call));
    const elapsedMs = performance.now() - startedAt;
    const { user, system } = process.cpuUsage(cpu);
    return {
      elapsedMs,
      cpuMs: (user + system) / 1e3,
      waits,
      endedAt,
      sourceCalls: source.calls - calls,
      values,
      staleValues,
      errors,
    };
  };
  return { visit };
}

export type PageCommands = Awaited<ReturnType<typeof open>>;
