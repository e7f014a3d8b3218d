/** Requests and answers, whatever the server. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** Returns the handler of what answers requests. `answer` must not reject. */
export function handlerOf(answer: (incoming: Incoming) => Promise<Outgoing>): HttpHandler {
  const handle = async (request: HttpRequest, reply?: ServerResponse | FastifyReplyLike): Promise<unknown> => {
    if (reply === undefined) {
      const { status, headers, body } = await answer(fromFetch(request as Request));
      return new Response(body === "" ? null : body, { status, headers });
    }
    if ("hijack" in reply) reply.hijack();
    const response = "hijack" in reply ? reply.raw : reply;
    const message = "raw" in request ? request.raw : (request as IncomingMessage);
    const { status, headers, body } = await answer(fromNode(message, request as FastifyRequestLike));
    // Another middleware has answered meanwhile, such as one for time limits.
    if (!response.headersSent) response.writeHead(status, headers).end(body);
    return undefined;
  };
  return handle as HttpHandler;
}

/** What is used of a request and a reply of Fastify. */
export type FastifyRequestLike = { readonly raw: IncomingMessage; readonly body?: unknown };
export type FastifyReplyLike = { readonly raw: ServerResponse; hijack(): unknown };

/** A request as a server passes it: of the Fetch API, of node:http and Express, or of Fastify. */
export type HttpRequest = Request | IncomingMessage | FastifyRequestLike;

/** Answers requests under servers of the Fetch API, of node:http and Express, and of Fastify. */
export interface HttpHandler {
  (request: Request): Promise<Response>;
  (request: IncomingMessage, response: ServerResponse): Promise<void>;
  (request: FastifyRequestLike, reply: FastifyReplyLike): Promise<void>;
}

/** An HTTP request, whatever has received it. */
export interface Incoming {
  readonly method: string;
  /** Returns a header by its name in lower case. */
  header(name: string): string | undefined;
  /** The host of this server, where no header has it. */
  readonly host: string | undefined;
  /** Returns the body: its chunks, or what a parser has made of it. Throws a `Refusal`. */
  body(): unknown;
  /** The request as the server has passed it, for `allow`. */
  readonly request: unknown;
}

export interface Outgoing {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Why a request gets no data: a code for programs and a sentence for the page. The status is 200
 * for what the page can send: a browser reports any other one as an error.
 */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;

  constructor(code: string, message: string, status = 200) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** A refusal of what the page never sends. */
export const badRequest = (status: number, message: string): Refusal => new Refusal("BAD_REQUEST", message, status);

function fromFetch(request: Request): Incoming {
  const { method, headers, url } = request;
  const host = URL.canParse(url) ? new URL(url).host : undefined;
  return { method, header: (name) => headers.get(name) ?? undefined, host, body: () => request.body ?? "", request };
}

/** `request`: the one that the server has passed, if it wraps that of node:http. */
function fromNode(message: IncomingMessage, request: FastifyRequestLike): Incoming {
  const header = (name: string): string | undefined => [message.headers[name]].flat()[0];
  const body = (): unknown => {
    // Express and Fastify parse JSON before a handler is called, if they were told to.
    if (request.body !== undefined || !message.readableEnded) return request.body ?? message;
    throw badRequest(400, "expected a body, got one that a middleware has read before without leaving it in `body`");
  };
  return { method: message.method ?? "GET", header, host: header(":authority"), body, request };
}

/** Returns the object in the body of a request. Rejects with a `Refusal`. */
export async function readObject(incoming: Incoming, maxBytes: number): Promise<Readonly<Record<string, unknown>>> {
  let given = incoming.body();
  if (typeof given === "object" && given !== null && Symbol.asyncIterator in given)
    given = await textOf(given as AsyncIterable<Uint8Array>, maxBytes);
  try {
    if (typeof given === "string") given = JSON.parse(given);
  } catch {
    throw badRequest(400, "expected JSON, got text that cannot be parsed");
  }
  if (typeof given === "object" && given !== null && !Array.isArray(given)) return given as Record<string, unknown>;
  throw badRequest(400, "expected a JSON object, got something else");
}

async function textOf(chunks: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  const read: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of chunks) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) throw badRequest(413, `expected at most ${maxBytes} bytes, got more`);
      read.push(chunk);
    }
  } catch (error) {
    // A caller that hangs up is no failure of this server.
    throw error instanceof Refusal ? error : badRequest(400, "expected a body, got one that ended early");
  }
  return Buffer.concat(read).toString("utf8");
}
