import type { IncomingMessage, ServerResponse } from "node:http";

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

/** An HTTP request, whatever has received it. */
export interface Incoming {
  readonly method: string;
  /** Returns a header by its name in lower case. */
  header(name: string): string | undefined;
  /** The hosts by which the caller can have reached this server, with their ports. */
  readonly hosts: readonly string[];
  /** Returns the body: its text, or what a parser has made of it. Rejects with a `BadRequest`. */
  body(maxBytes: number): Promise<unknown>;
  /** The request as the server has passed it, for the functions that decide. */
  readonly request: unknown;
}

export interface Outgoing {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A request that is refused for what it is, in words for its sender. */
export class BadRequest extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = "BadRequest";
    this.status = status;
  }
}

export const COMMON_HEADERS = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
};
export const JSON_HEADERS = { ...COMMON_HEADERS, "content-type": "application/json; charset=utf-8" };

/** Throws a `BadRequest` unless a request says that its body is JSON. A form of another site cannot say so. */
export function checkJsonType({ header }: Incoming): void {
  if (header("content-type")?.split(";")[0]?.trim().toLowerCase() !== "application/json")
    throw new BadRequest(415, "expected a body of the type application/json, got another one");
}

/** Returns the object in the body of a request. Rejects with a `BadRequest`. */
export async function readObject(incoming: Incoming, maxBytes: number): Promise<Readonly<Record<string, unknown>>> {
  let body: unknown;
  try {
    body = await incoming.body(maxBytes);
  } catch (error) {
    // A caller that hangs up is no failure of this server.
    throw error instanceof BadRequest ? error : new BadRequest(400, "expected a body, got one that ended early");
  }
  const given = typeof body === "string" ? parsed(body) : body;
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new BadRequest(400, "expected a JSON object, got something else");
  return given as Readonly<Record<string, unknown>>;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new BadRequest(400, "expected JSON, got text that cannot be parsed");
  }
}
