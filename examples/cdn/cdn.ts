import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A response that the CDN keeps. */
interface Kept {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
  readonly tags: readonly string[];
  /** The values of the request headers that the response varies by. */
  readonly varying: ReadonlyMap<string, string | undefined>;
  readonly at: number;
  readonly untilAt: number;
}

/** A CDN on this machine. */
export interface Cdn {
  readonly url: string;
  close(): void;
}

/**
 * Starts a small CDN in front of `origin`. It keeps the responses to GET requests for `s-maxage`, by URL and `Vary`, and forgets those with
 * one of the tags in the header `Cache-Tag` of a PURGE request, as the purge API of a real one does.
 */
export async function startCdn(origin: () => string, now: () => number = Date.now): Promise<Cdn> {
  let kept: (Kept & { readonly path: string })[] = [];
  const isFor = ({ path, varying, untilAt }: (typeof kept)[number], { url, headers }: IncomingMessage): boolean =>
    path === url && untilAt > now() && [...varying].every(([name, value]) => String(headers[name]) === String(value));
  const server = createServer((request, response) => {
    handle(request, response).catch(() => response.writeHead(502).end());
  });
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = "GET", url: path = "/", headers } = request;
    if (method === "PURGE") {
      const purged = tagsIn(String(headers["cache-tag"]));
      kept = kept.filter(({ tags }) => !tags.some((tag) => purged.includes(tag)));
      response.writeHead(204).end();
      return;
    }
    const hit = method === "GET" ? kept.find((one) => isFor(one, request)) : undefined;
    if (hit !== undefined) {
      send(response, hit, { "x-cache": "HIT", age: String(Math.floor((now() - hit.at) / 1_000)) });
      return;
    }
    const fetched = await forward(`${origin()}${path}`, request);
    const maxAge = /\bs-maxage=(\d+)/.exec(fetched.headers.get("cache-control") ?? "")?.[1];
    const vary = tagsIn(fetched.headers.get("vary") ?? "").map((name) => name.toLowerCase());
    if (method === "GET" && maxAge !== undefined)
      kept.push({
        ...fetched,
        path,
        tags: tagsIn(fetched.headers.get("cache-tag") ?? ""),
        varying: new Map(vary.map((name) => [name, headers[name] as string | undefined])),
        at: now(),
        untilAt: now() + Number(maxAge) * 1_000,
      });
    send(response, fetched, { "x-cache": "MISS" });
  };
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => server.close() };
}

const tagsIn = (header: string): string[] => header.split(/\s*,\s*/).filter((tag) => tag !== "");

async function forward(
  url: string,
  request: IncomingMessage,
): Promise<{ status: number; headers: Headers; body: string }> {
  const { host: _, connection: __, "content-length": ___, ...headers } = request.headers;
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = chunks.length === 0 ? null : Buffer.concat(chunks);
  const response = await fetch(url, { method: request.method ?? "GET", headers: headers as HeadersInit, body });
  return { status: response.status, headers: response.headers, body: await response.text() };
}

/** What the CDN alone has to know is not passed on. */
function send(
  response: ServerResponse,
  { status, headers, body }: Pick<Kept, "status" | "headers" | "body">,
  more: Readonly<Record<string, string>>,
): void {
  const sent = Object.fromEntries(["content-type", "cache-control", "vary"].map((name) => [name, headers.get(name)]));
  const known = Object.fromEntries(Object.entries(sent).filter(([, value]) => value !== null)) as Record<
    string,
    string
  >;
  response.writeHead(status, { ...known, ...more }).end(body);
}
