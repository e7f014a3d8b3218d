import { AsyncLocalStorage } from "node:async_hooks";
import { ApolloServer } from "@apollo/server";
import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { execute, type GraphQLResolveInfo, parse } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import type { Store } from "graphql-cached/store";
import { afterAll, expect, it } from "vitest";
import { type Draw, drawOfSeed } from "../property/draw.js";

/*
 * Features that each hold alone, put together at random: PUBLIC and PRIVATE fields and loaders that read each other, hints
 * that loads set, keys with values of the context, one context object for all requests, users from an AsyncLocalStorage,
 * aliases, requests at the same time, two processes, servers. Whatever a field is made of, its value names the user whom
 * it was made for, and nobody may get that of another.
 */

/** 60, and 600 by `npm run verify`. */
const SITES = Number(process.env.PROPERTY_RUNS ?? 4) * 15;
const USERS = ["alice", "bob", "carol", undefined];

/** What reads what, from a field down to the source, which returns the name of the user. */
type Link =
  | { readonly kind: "public-loader" | "private-loader" | "uncached-private-loader" }
  | { readonly kind: "function" | "hint" };
interface Field {
  readonly scope: "PUBLIC" | "PRIVATE";
  readonly hasTenant: boolean;
  readonly isPersonal: boolean;
  readonly links: readonly Link[];
}

interface Viewer {
  userId?: string | undefined;
  tenant?: string | undefined;
}

function drawField(draw: Draw, hasHints: boolean): Field {
  const kinds: Link["kind"][] = ["public-loader", "private-loader", "uncached-private-loader", "function"];
  const links = Array.from({ length: draw.int(3) }, (): Link => ({ kind: draw.pick(kinds) }));
  const scope = draw.pick(["PUBLIC", "PRIVATE"] as const);
  const hasTenant = draw.chance(30);
  const readsPrivate = (from: number): boolean => links.slice(from).some(({ kind }) => kind.includes("private"));
  // Without any mark, a PUBLIC load that names the user would be the mistake of the application.
  const areMarked = links.every(({ kind }, nth) => kind !== "public-loader" || readsPrivate(nth + 1));
  const isMarked = scope === "PRIVATE" || hasTenant || readsPrivate(0);
  const hasHint = areMarked && !isMarked && hasHints && draw.chance(70);
  return {
    scope,
    hasTenant,
    isPersonal: areMarked && (isMarked || hasHint),
    links: hasHint ? [{ kind: "hint" }, ...links] : links,
  };
}

// One for all sites: promises get slower with each AsyncLocalStorage of their process that is not disabled.
const session = new AsyncLocalStorage<string | undefined>();
afterAll(() => session.disable());

it("no composition of scopes, loaders, hints, contexts and servers gives a caller the value of another", async () => {
  for (let seed = 1; seed <= SITES; seed++) await checkSite(seed);
}, 120_000);

async function checkSite(seed: number): Promise<void> {
  const draw = drawOfSeed(`composed ${seed}`);
  const isInSession = draw.chance(50);
  // A shared context that changes its user would be the mistake of the application, unless the user is in the session.
  const sharedContext: Viewer | undefined = isInSession && draw.chance(60) ? {} : undefined;
  const isApollo = draw.chance(40);
  const fields = Array.from({ length: 4 }, () => drawField(draw, isApollo));
  const store = memoryStore();
  const processes = [0, 1].map(() =>
    startProcess({ store, fields, session, isInSession, isShared: sharedContext !== undefined }),
  );
  const servers = processes.map(({ schema, cache }) =>
    isApollo ? new ApolloServer<Viewer>({ schema, plugins: [cachedPlugin(cache)] }) : undefined,
  );
  const names = fields.flatMap((_, nth) => [`f${nth}`, ...(draw.chance(30) ? [`again${nth}: f${nth}`] : [])]);
  const query = `{ ${names.join(" ")} }`;
  const ask = async (user: string | undefined, nth: number): Promise<void> => {
    const contextValue = sharedContext ?? { userId: user, tenant: user };
    const { schema } = processes[nth % 2] as (typeof processes)[0];
    const server = servers[nth % 2];
    const answer = await session.run(user, async () => {
      if (server === undefined)
        return { ...(await execute({ schema, document: parse(query), contextValue })), control: undefined };
      const { body, http } = await server.executeOperation({ query }, { contextValue });
      if (body.kind !== "single") throw new Error("expected a single result");
      return { ...body.singleResult, control: http.headers.get("cache-control") };
    });
    expect(
      answer.errors?.map(({ message }) => message),
      `seed ${seed}`,
    ).toBeUndefined();
    for (const [name, value] of Object.entries(answer.data as object)) {
      const field = fields[Number(name.at(-1))] as Field;
      expect(value, `seed ${seed}: ${name} for ${user}: ${JSON.stringify(field)}`).toBe(
        field.isPersonal ? `of ${user}` : "of all",
      );
    }
    if (fields.some(({ isPersonal }) => isPersonal))
      expect(answer.control ?? "", `seed ${seed}`).not.toContain("public");
  };
  // A context object that requests change in turn: what they get is the mistake of the application, but not what is stored.
  if (!isInSession && !isApollo && draw.chance(60)) {
    const reused: Viewer = {};
    const asked = USERS.map((user, nth) => {
      reused.userId = user;
      reused.tenant = user;
      const { schema } = processes[nth % 2] as (typeof processes)[0];
      return execute({ schema, document: parse(query), contextValue: reused });
    });
    await Promise.allSettled(asked);
    await settle();
  }
  for (let round = 0; round < 3; round++) {
    const users = shuffled(USERS, draw);
    if (draw.chance(50)) await Promise.all(users.map((user, nth) => ask(user, nth)));
    else for (const [nth, user] of users.entries()) await ask(user, nth);
    await settle();
  }
  for (const server of servers) await server?.stop();
  for (const { cache } of processes) await cache.close();
}

function shuffled<Item>(items: readonly Item[], draw: Draw): Item[] {
  const rest = [...items];
  return items.map(() => rest.splice(draw.int(rest.length - 1), 1)[0] as Item);
}

interface Site {
  readonly store: Store;
  readonly fields: readonly Field[];
  readonly session: AsyncLocalStorage<string | undefined>;
  readonly isInSession: boolean;
  readonly isShared: boolean;
}

function startProcess({ store, fields, session, isInSession, isShared }: Site) {
  const userOf = (viewer: Viewer): string | undefined => (isInSession ? session.getStore() : viewer.userId);
  const cache = createCache<Viewer>({
    defaultScope: "PUBLIC",
    store,
    prefix: "site",
    identify: userOf,
    logger: { info: () => undefined, warn: () => undefined },
    privacy: { warnOnContextReads: false },
  });
  type Read = (viewer: Viewer, info: GraphQLResolveInfo) => Promise<string>;
  const chainOf = (field: Field, nth: number): Read => {
    const source: Read = async (viewer) => (field.isPersonal ? `of ${userOf(viewer)}` : "of all");
    return field.links.reduceRight<Read>(
      (read, { kind }, depth) => linkTo(cache, kind, `L${nth}x${depth}`, read),
      source,
    );
  };
  const linkTo = (made: Cache<Viewer>, kind: Link["kind"], name: string, read: Read): Read => {
    if (kind === "function") return async (viewer, info) => read(viewer, info);
    if (kind === "hint")
      return async (viewer, info) => {
        (info as unknown as { cacheControl: { setCacheHint(hint: object): void } }).cacheControl.setCacheHint({
          scope: "PRIVATE",
        });
        return read(viewer, info);
      };
    const loader = made.loader<number, string, Viewer>({
      name,
      scope: kind === "public-loader" ? "PUBLIC" : "PRIVATE",
      maxAge: kind === "uncached-private-loader" ? 0 : 60,
      batch: async (ids, viewer) => {
        await undefined;
        const value = await read(viewer, {} as GraphQLResolveInfo);
        return ids.map(() => value);
      },
    });
    return (viewer) => loader(viewer).load(1);
  };
  // With one context for all requests, its properties cannot tell them apart.
  const keyOf = ({ hasTenant }: Field): string => (hasTenant && !isShared ? ', key: ["$args", "$context.tenant"]' : "");
  const scopeOf = (field: Field): string => {
    if (field.hasTenant && isShared) return ", scope: PRIVATE";
    return field.scope === "PRIVATE" ? ", scope: PRIVATE" : "";
  };
  const declared = `${fields
    .map((field, nth) => `f${nth}: String @cached(maxAge: 60${scopeOf(field)}${keyOf(field)})`)
    .join(" ")}`;
  const typeDefs = `type Query { ${declared} }`;
  const resolvers = Object.fromEntries(
    fields.map((field, nth) => {
      const read = chainOf(field, nth);
      return [`f${nth}`, (_: unknown, __: object, viewer: Viewer, info: GraphQLResolveInfo) => read(viewer, info)];
    }),
  );
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, typeDefs],
      resolvers: { Query: resolvers },
    }),
    cache,
  );
  return { cache, schema };
}
