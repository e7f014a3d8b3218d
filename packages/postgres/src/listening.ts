import { type Cancel, type Clock, within } from "graphql-cached/store";
import type { Retrying } from "./retrying.js";

/**
 * Keeps a connection for notifications, and replaces it when it is lost. Returns what ends that.
 */
export function keepListening(
  listen: Listen,
  channel: string,
  wake: () => void,
  clock: Clock,
  retrying: Retrying,
): () => Promise<void> {
  let isStopped = false;
  let end: (() => unknown) | undefined;
  let cancelRetry: Cancel | undefined;
  const disconnect = async (): Promise<void> => {
    const ending = end;
    end = undefined;
    await endQuietly(ending);
  };
  const connect = async (): Promise<void> => {
    let isLost = false;
    const lost = (error: unknown = new Error("the connection ended")): void => {
      if (isLost || isStopped) return;
      isLost = true;
      const ms = retrying.failed(error);
      void disconnect();
      cancelRetry = clock.after(ms, () => void connect());
    };
    const connecting = (async () => {
      const connected = await listen(channel, wake, lost);
      // A connection that comes too late is closed again.
      if (isLost || isStopped) return void endQuietly(connected);
      end = connected;
      retrying.succeeded();
      // What was sent before the connection was there has not arrived.
      wake();
    })();
    const late = (): Promise<never> => Promise.reject(new Error(`cannot connect within ${CONNECT_MS} ms`));
    await within(clock, connecting, { ms: CONNECT_MS, otherwise: late }).catch(lost);
  };
  void connect();
  return () => {
    isStopped = true;
    cancelRetry?.();
    return disconnect();
  };
}

/**
 * Listens on a notification channel: calls `wake` for every notification, and `lost` when no more
 * can arrive. Resolves to a function that ends listening. Called again, with a delay, after `lost`
 * and after a rejection.
 */
export type Listen = (channel: string, wake: () => void, lost: (error?: unknown) => void) => Promise<() => unknown>;

/** What `listenWith` uses of a `Client` of pg. */
export interface NotificationClient {
  connect(): Promise<unknown>;
  query(text: string): Promise<unknown>;
  on(event: "notification" | "error" | "end", listener: (argument?: unknown) => void): unknown;
  end(): Promise<unknown>;
}

/** Listens on a connection of its own, for pg: `listenWith(() => new Client(config))`. */
export function listenWith(createClient: () => NotificationClient): Listen {
  return async (channel, wake, lost) => {
    const client = createClient();
    client.on("notification", () => wake());
    client.on("error", lost);
    client.on("end", () => lost());
    const end = (): void => void client.end().catch(() => undefined);
    try {
      await client.connect();
      await client.query(`LISTEN "${channel}"`);
    } catch (error) {
      end();
      throw error;
    }
    return end;
  };
}

const CONNECT_MS = 10_000;

/** The connection is given up, so it does not matter how it ends. */
async function endQuietly(end: (() => unknown) | undefined): Promise<void> {
  try {
    await end?.();
  } catch {}
}
