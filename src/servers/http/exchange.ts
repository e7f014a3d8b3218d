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
