import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { ApolloServer } from "@apollo/server";
import type { CacheEvent } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { inspect } from "../support/inspection.js";
import { startProgram } from "../support/programs.js";
import type { Command } from "../support/provenance-process.js";
import { createProvenanceSite, WAYS, type Way } from "../support/provenance-site.js";
import { waitForMessage } from "../support/real-processes.js";
import { sharedServer } from "../support/shared-servers.js";

/** What the inspection says after each way to invalidate. */
const EXPECTED: Readonly<Record<Way, readonly [reason: string, kind: string, via: string, mutation?: string]>> = {
  "an entry": ["REMOVED", "HARD", "cache.invalidate"],
  "an entry, softly": ["SOFTLY_INVALIDATED", "SOFT", "cache.invalidate"],
  "an entry of a loader": ["REMOVED", "HARD", "cache.invalidate"],
  "a field": ["FIELD_INVALIDATED", "HARD", "cache.invalidate"],
  "a field, softly": ["SOFTLY_INVALIDATED", "SOFT", "cache.invalidate"],
  "a loader": ["FIELD_INVALIDATED", "HARD", "cache.invalidate"],
  "a tag": ["TAG_INVALIDATED", "HARD", "cache.invalidateTags"],
  "a tag, softly": ["SOFTLY_INVALIDATED", "SOFT", "cache.invalidateTags"],
  "a tag of a loader": ["TAG_INVALIDATED", "HARD", "cache.invalidateTags"],
  "a tag of the result": ["RESULT_TAG_INVALIDATED", "HARD", "cache.invalidateTags"],
  "a tag of the result, softly": ["SOFTLY_INVALIDATED", "SOFT", "cache.invalidateTags"],
  everything: ["CLEARED", "HARD", "cache.clear"],
  "everything, softly": ["SOFTLY_INVALIDATED", "SOFT", "cache.clear"],
  "a write of an entry": ["REMOVED", "WRITE", "cache.mutate"],
  "a write of a tag": ["TAG_INVALIDATED", "WRITE", "cache.mutate"],
  "@invalidates": ["TAG_INVALIDATED", "HARD", "@invalidates", "Mutation.rename"],
  "the tag of an entity": ["RESULT_TAG_INVALIDATED", "HARD", "entityTags", "Mutation.change"],
  "an operator's cacheInvalidate": ["REMOVED", "HARD", "cacheInvalidate"],
  "an operator's cacheInvalidateAll": ["FIELD_INVALIDATED", "HARD", "cacheInvalidateAll"],
  "an operator's cacheInvalidateTags": ["SOFTLY_INVALIDATED", "SOFT", "cacheInvalidateTags"],
  "an operator's cacheClear": ["CLEARED", "HARD", "cacheClear"],
};

describe("The inspection in another process on one Redis", async () => {
  const { host, port } = await sharedServer("redisStandalone");
  const client = new Redis(port, host);
  const prefix = `provenance-${randomUUID()}`;
  const stored: string[] = [];
  const onEvent = ({ name }: CacheEvent): void => {
    if (name === "write.finished") stored.push(name);
  };
  const site = createProvenanceSite(redisStore({ client }), prefix, { onEvent });
  const server = new ApolloServer({
    schema: site.schema,
    plugins: [cachedPlugin(site.cache, { allow: () => true })],
  });
  let child: ChildProcess;
  beforeAll(async () => {
    child = await startProgram("provenance-process", { PORT: String(port), PREFIX: prefix });
    await waitForMessage(child, "ready");
  });
  afterAll(async () => {
    child.kill("SIGKILL");
    await server.stop();
    await site.cache.close();
    await client.quit();
  });

  it.each(Object.keys(WAYS) as Way[])("names the cause after the invalidation of %s", async (way) => {
    const id = randomUUID();
    const isLoader = way.includes("loader");
    const [reason, kind, via, mutation = null] = EXPECTED[way];
    const query = isLoader ? `{ price(id: "${id}") }` : `{ movie(id: "${id}") { id genre } }`;
    const storedBefore = stored.length;
    await site.ask(query);
    await vi.waitFor(() => expect(stored.length).toBeGreaterThan(storedBefore));
    const target = isLoader ? `coordinate: "Price", id: "${id}"` : `coordinate: "Query.movie", args: { id: "${id}" }`;
    const entry = async (selection: string): Promise<unknown> =>
      (await inspect(site.cache, `entry(${target}) { ${selection} }`)).entry;
    expect(await entry("state use reason")).toEqual({ state: "VALUE", use: "FRESH", reason: null });

    const done = waitForMessage(child, "done");
    child.send({ way, id } satisfies Command);
    await done;

    const process = { pid: child.pid, host: hostname(), isThis: false };
    const invalidation = { kind, via, mutation, isConfirmed: true, process };
    const selection = "reason explanation invalidation { kind via mutation isConfirmed process { pid host isThis } }";
    await vi.waitFor(async () => expect(await entry(selection)).toMatchObject({ reason, invalidation }), {
      timeout: 5_000,
    });
    const { explanation } = (await entry("explanation")) as { explanation: string };
    expect(explanation).toContain(mutation === null ? via : `${via} of ${mutation}`);
    expect(explanation).toContain(`process ${child.pid} on ${hostname()} at 20`);

    const traced = async (): Promise<unknown> => {
      const { body } = await server.executeOperation({ query, extensions: { cached: true } }, { contextValue: {} });
      const { cached } = (body.kind === "single" ? body.singleResult.extensions : {}) as { cached: object };
      return Object.values(cached)[0];
    };
    expect(await traced()).toEqual({
      [kind === "SOFT" ? "stale" : "loaded"]: 1,
      invalidatedBy: [
        {
          via,
          kind,
          ...(mutation === null ? {} : { mutation }),
          at: expect.stringMatching(/^20\d\d-.+Z$/),
          process: { id: expect.stringMatching(/^[0-9a-f]{16}$/), ...process },
          reads: 1,
        },
      ],
    });
    await vi.waitFor(async () => expect(await traced()).toEqual({ hit: 1 }));
  });
});
