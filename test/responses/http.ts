import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { startStandaloneServer } from "@apollo/server/standalone";
import { settle } from "@graphql-cached/testing";
import fastify, { type FastifyInstance, type FastifyReply } from "fastify";
import type { EdgeOptions } from "graphql-cached";
import { cachedPlugin, stringifyResult } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { useCached } from "graphql-cached/yoga";
import { mercurius } from "mercurius";
import { onTestFinished } from "vitest";
import { apolloOf, openSite, type SiteOptions, yogaOf } from "./site.js";

export type Headers = Readonly<Record<string, string>>;
/** Apollo Server "as text" sends stored responses without parsing them. */
export type Kind = "Apollo Server" | "Apollo Server, as text" | "GraphQL Yoga" | "Mercurius";

type Run = (...given: unknown[]) => Promise<object>;

interface Setup extends SiteOptions {
  readonly edge?: boolean | EdgeOptions;
  /** Further plugins, before and after that of the cache. */
  readonly before?: readonly object[];
  readonly after?: readonly object[];
  readonly context?: (headers: Headers) => object;
  /** Further routes of Mercurius, whose operations `run` executes. */
  readonly routes?: Readonly<Record<string, (run: Run, reply: FastifyReply) => Promise<unknown>>>;
}

interface Executing {
  readonly graphql: Run;
}

/** Serves a site over HTTP on loopback. */
export async function serve(kind: Kind, setup: Setup) {
  const { edge = false, responses = false, before = [], after = [], context = () => ({}) } = setup;
  const site = openSite(setup);
  const { cache, schema } = site;
  let url: string;
  let app: FastifyInstance | undefined;
  if (kind === "GraphQL Yoga") {
    const yoga = yogaOf(site, {
      own: [useCached(cache, { edge, responses })],
      before,
      after,
      context: ({ request }) => context(Object.fromEntries(request.headers)),
    });
    const http = createServer((request, response) => void yoga(request, response));
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void (http.close(), http.closeAllConnections()));
    url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/graphql`;
  } else if (kind === "Mercurius") {
    const opened = fastify({ forceCloseConnections: true });
    app = opened;
    onTestFinished(() => opened.close());
    await app.register(mercurius, { schema, context: ({ headers }) => context(headers as Headers) });
    cachedHooks(app as never, cache as never, { edge });
    for (const [path, make] of Object.entries(setup.routes ?? {}))
      app.get(path, (_, reply) => make((...given) => (reply as never as Executing).graphql(...given), reply));
    url = `${await app.listen({ port: 0, host: "127.0.0.1" })}/graphql`;
  } else {
    const apollo = apolloOf(site, {
      own: [cachedPlugin(cache, { edge, responses })],
      before,
      after,
      csrfPrevention: false,
      ...(kind === "Apollo Server" ? {} : { stringifyResult }),
    });
    const listen = { port: 0, host: "127.0.0.1" };
    ({ url } = await startStandaloneServer(apollo, {
      listen,
      context: async ({ req }) => context(req.headers as Headers),
    }));
  }
  /** `further`: parameters of the URL besides the query. */
  const ask = async (query: string, headers: Headers = {}, method = "GET", further = "") => {
    const all = { accept: "application/json", "content-type": "application/json", ...headers };
    const response = await fetch(method === "POST" ? url : `${url}?query=${encodeURIComponent(query)}${further}`, {
      method,
      headers: all,
      ...(method === "POST" ? { body: JSON.stringify({ query }) } : {}),
    });
    const text = await response.text();
    await settle();
    const { status, headers: sent } = response;
    return {
      status,
      text,
      control: sent.get("cache-control"),
      vary: sent.get("vary"),
      tags: sent.get("cache-tag"),
      etag: sent.get("etag"),
    };
  };
  return { ...site, ask, app, url };
}
