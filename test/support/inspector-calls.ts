import type { InspectorHandler } from "@graphql-cached/inspector";

export const PAGE_URL = "http://inspector.test/cache";

/** The headers that the page sends. */
export const PAGE_HEADERS = { "content-type": "application/json", "x-graphql-cached-inspector": "1" };

export interface Reply {
  readonly data?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: string; readonly message: string };
}

/** Sends a question as the page does. `headers`: more of them, or others. */
export async function post(
  handler: InspectorHandler,
  body: unknown,
  headers: Readonly<Record<string, string | undefined>> = {},
): Promise<Response> {
  const all = Object.entries({ ...PAGE_HEADERS, ...headers }).filter((entry): entry is [string, string] => !!entry[1]);
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return handler(new Request(PAGE_URL, { method: "POST", headers: all, body: text }));
}

/** Asks what the page asks, and returns the answer. */
export async function call(
  handler: InspectorHandler,
  operation: string,
  variables: object = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  return (await (await post(handler, { operation, variables }, headers)).json()) as Reply;
}
