import type { IncomingMessage, ServerResponse } from "node:http";
import { BadRequest, type Incoming, type Outgoing } from "./exchange.js";

/** Returns the handler of what answers requests, whatever the server. `answer` must not reject. */
export function handlerOf(answer: (incoming: Incoming) => Promise<Outgoing>): HttpHandler {
  const handle = async (request: HttpRequest, reply?: ServerResponse | FastifyReplyLike): Promise<unknown> => {
    if (reply === undefined) return toResponse(await answer(readFetch(request as Request)));
    if ("raw" in reply && "raw" in request) {
      reply.hijack();
      send(reply.raw, await answer(readNode(request.raw, request)));
    } else send(reply as ServerResponse, await answer(readNode(request as IncomingMessage)));
    return undefined;
  };
  return handle as HttpHandler;
}

/** What is used of a request of Fastify. */
export interface FastifyRequestLike {
  readonly raw: IncomingMessage;
  readonly body?: unknown;
}

/** What is used of a reply of Fastify. */
export interface FastifyReplyLike {
  readonly raw: ServerResponse;
  hijack(): unknown;
}

/** A request as a server passes it: of the Fetch API, of node:http and Express, or of Fastify. */
export type HttpRequest = Request | IncomingMessage | FastifyRequestLike;

/** Answers requests under servers of the Fetch API, of node:http and Express, and of Fastify. */
export interface HttpHandler {
  (request: Request): Promise<Response>;
  (request: IncomingMessage, response: ServerResponse): Promise<void>;
  (request: FastifyRequestLike, reply: FastifyReplyLike): Promise<void>;
}

function readFetch(request: Request): Incoming {
  const { method, headers, url } = request;
  const header = (name: string): string | undefined => headers.get(name) ?? undefined;
  const ownHost = URL.canParse(url) ? new URL(url).host : undefined;
  return {
    method,
    header,
    hosts: hostsOf([ownHost, header("host"), header("x-forwarded-host")]),
    body: async (maxBytes) => {
      if (request.body === null) return "";
      const chunks = new Body(maxBytes);
      for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) chunks.add(chunk);
      return chunks.text();
    },
    request,
  };
}

const toResponse = ({ status, headers, body }: Outgoing): Response =>
  new Response(body === "" ? null : body, { status, headers });

/** Reads a request of node:http. `request`: the one that the server has passed, if it wraps that. */
function readNode(message: IncomingMessage, request: { readonly body?: unknown } = message as never): Incoming {
  const header = (name: string): string | undefined => {
    const value = message.headers[name];
    return Array.isArray(value) ? value[0] : value;
  };
  return {
    method: message.method ?? "GET",
    header,
    hosts: hostsOf([header("host"), header(":authority"), header("x-forwarded-host")]),
    body: async (maxBytes) => {
      // Express and Fastify parse JSON before a handler is called, if they were told to.
      if (request.body !== undefined) return request.body;
      if (message.readableEnded)
        throw new BadRequest(
          400,
          "expected a body, got one that a middleware has read before without leaving it in `body`",
        );
      const chunks = new Body(maxBytes);
      for await (const chunk of message as AsyncIterable<Uint8Array>) chunks.add(chunk);
      return chunks.text();
    },
    request,
  };
}

function send(response: ServerResponse, { status, headers, body }: Outgoing): void {
  // Another middleware has answered meanwhile, such as one for time limits.
  if (response.headersSent) return;
  response.writeHead(status, headers);
  response.end(body);
}

const hostsOf = (values: readonly (string | undefined)[]): string[] =>
  values.flatMap((value) => (value === undefined ? [] : value.split(",").map((one) => one.trim().toLowerCase())));

class Body {
  readonly #maxBytes: number;
  readonly #chunks: Uint8Array[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Throws a `BadRequest` if there are too many bytes. */
  add(chunk: Uint8Array): void {
    this.#bytes += chunk.byteLength;
    if (this.#bytes > this.#maxBytes) throw new BadRequest(413, `expected at most ${this.#maxBytes} bytes, got more`);
    this.#chunks.push(chunk);
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString("utf8");
  }
}
