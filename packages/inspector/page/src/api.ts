import { useEffect, useRef, useState } from "preact/hooks";

export interface Problem {
  readonly code: string;
  readonly message: string;
}

export type Reply<Data> =
  | { readonly data: Data; readonly error?: undefined }
  | { readonly data?: undefined; readonly error: Problem };

/** Sends a question to the URL of this page. Never rejects. */
export async function ask<Data>(operation: string, variables: object = {}): Promise<Reply<Data>> {
  let text: string;
  let status: number;
  try {
    const response = await fetch(location.pathname + location.search, {
      method: "POST",
      headers: { "content-type": "application/json", "x-graphql-cached-inspector": "1" },
      body: JSON.stringify({ operation, variables }),
      credentials: "same-origin",
      cache: "no-store",
    });
    status = response.status;
    text = await response.text();
  } catch {
    return { error: { code: "UNREACHABLE", message: "The server does not answer. It may be restarting." } };
  }
  try {
    const reply = JSON.parse(text) as Reply<Data>;
    if (typeof reply === "object" && reply !== null && ("data" in reply || "error" in reply)) return reply;
  } catch {
    // Not an answer of the handler.
  }
  const message = `Something between this page and the inspector has answered instead of it (HTTP ${status}). If you were signed out, sign in and reload the page.`;
  return { error: { code: "UNEXPECTED", message } };
}

/** The last good answer, and what has gone wrong since. */
export interface Polled<Data> {
  readonly data: Data | undefined;
  readonly error: Problem | undefined;
  /** When the last good answer came, in milliseconds. Undefined: never. */
  readonly at: number | undefined;
}

export const isDenied = (error: Problem | undefined): boolean => error?.code === "CACHED_INSPECTION_DENIED";

/** Asks again and again while the page is visible, one question at a time. */
export function usePolled<Data>(operation: string, everyMs: number, isOn: boolean): Polled<Data> {
  const [state, setState] = useState<Polled<Data>>({ data: undefined, error: undefined, at: undefined });
  const hasAsked = useRef(false);
  useEffect(() => {
    if (!isOn && hasAsked.current) return;
    let isCurrent = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const next = async (): Promise<void> => {
      if (!document.hidden || !hasAsked.current) {
        const reply = await ask<Data>(operation);
        if (!isCurrent) return;
        hasAsked.current = true;
        if (reply.error === undefined) setState({ data: reply.data, error: undefined, at: Date.now() });
        else setState((before) => ({ ...before, error: reply.error }));
        // A caller that is denied has to sign in first.
        if (isDenied(reply.error)) return;
      }
      if (isOn) timer = setTimeout(() => void next(), everyMs);
    };
    void next();
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [operation, everyMs, isOn]);
  return state;
}
