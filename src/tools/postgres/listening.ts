import { type Cancel, type Clock, within } from "../../core/base/clock.js";
import type { Backoff } from "./backoff.js";
import type { FailureReport } from "./failure-report.js";

/**
 * Listens on a notification channel: calls `wake` for every notification, and `lost` when no more can
 * arrive. Resolves to a function that ends listening. Called again, with a delay, after `lost` and after
 * a rejection.
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

/** How long it may take to connect. */
const CONNECT_MS = 10_000;

/** What `Listening` uses. */
export interface ListeningParts {
  readonly channel: string;
  readonly clock: Clock;
  readonly backoff: Backoff;
  readonly report: FailureReport;
  wake(): void;
}

/** Keeps a connection for notifications, and replaces it when it is lost. */
export class Listening {
  readonly #listen: Listen;
  readonly #parts: ListeningParts;
  #isStopped = false;
  #end: (() => unknown) | undefined;
  #cancelRetry: Cancel | undefined;

  constructor(listen: Listen, parts: ListeningParts) {
    this.#listen = listen;
    this.#parts = parts;
    void this.#connect();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelRetry?.();
    await this.#disconnect();
  }

  async #connect(): Promise<void> {
    const { channel, clock, backoff, report, wake } = this.#parts;
    let isLost = false;
    const lost = (error: unknown = new Error("the connection ended")): void => {
      if (isLost || this.#isStopped) return;
      isLost = true;
      report.failed(error);
      void this.#disconnect();
      this.#cancelRetry = clock.after(backoff.nextMs(), () => void this.#connect());
    };
    const connecting = (async () => {
      const end = await this.#listen(channel, wake, lost);
      // A connection that comes too late is closed again.
      if (isLost || this.#isStopped) return void endQuietly(end);
      this.#end = end;
      backoff.reset();
      report.recovered();
      // What was sent before the connection was there has not arrived.
      wake();
    })();
    const late = (): Promise<never> => Promise.reject(new Error(`cannot connect within ${CONNECT_MS} ms`));
    await within(clock, connecting, { ms: CONNECT_MS, otherwise: late }).catch(lost);
  }

  async #disconnect(): Promise<void> {
    const end = this.#end;
    this.#end = undefined;
    if (end !== undefined) await endQuietly(end);
  }
}

/** The connection is given up, so it does not matter how it ends. */
async function endQuietly(end: () => unknown): Promise<void> {
  try {
    await end();
  } catch {}
}
