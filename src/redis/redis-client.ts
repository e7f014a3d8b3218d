/**
 * The few methods of a client that the store calls, as a shape: ioredis 5.4+ and 6 fit it, standalone, behind Sentinel or as a Cluster.
 * Nothing of ioredis is imported, not even types.
 */
export interface RedisClient {
  readonly options: object;
  readonly status: string;
  pipeline(): RedisPipeline;
  callBuffer(command: string, ...args: (string | Buffer | number)[]): Promise<unknown>;
  duplicate(...args: never[]): unknown;
  on(event: ClientEvent, listener: (error: Error) => void): unknown;
  off(event: ClientEvent, listener: (error: Error) => void): unknown;
}

/** What of a client's logId the store hears; the last two are a Cluster's. */
export type ClientEvent = "error" | "ready" | "+node" | "refresh";

/** Commands that travel together. Replies are raw bytes. */
export interface RedisPipeline {
  callBuffer(command: string, args: (string | Buffer | number)[]): RedisPipeline;
  exec(): Promise<[error: Error | null, reply: unknown][] | null>;
}

/** What a Cluster client has besides: where each slot is. */
export interface RedisClusterClient extends RedisClient {
  readonly isCluster: true;
  readonly slots: string[][];
  nodes(role: "master"): RedisClient[];
}

/** The second connection, which only listens. */
export interface RedisSubscriber {
  subscribe(channel: string): Promise<unknown>;
  on(event: "messageBuffer", listener: (channel: Buffer, message: never) => void): unknown;
  on(event: "ready" | "close", listener: () => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  call(command: string, ...args: string[]): Promise<unknown>;
  ping(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
}

export function isCluster(client: RedisClient): client is RedisClusterClient {
  return (client as { isCluster?: unknown }).isCluster === true;
}
