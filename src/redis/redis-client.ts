/**
 * The part of a client's interface that the store uses. ioredis 5.4 or newer and ioredis 6 have it,
 * standalone, behind Sentinel and as a Cluster. Nothing is imported from ioredis, not even types.
 */
export interface RedisClient {
  readonly options: object;
  readonly status: string;
  /** The present connection, once there is one. */
  readonly stream?: { readonly bytesRead: number } | undefined;
  pipeline(): RedisPipeline;
  callBuffer(command: string, ...args: (string | Buffer | number)[]): Promise<unknown>;
  mgetBuffer(...keys: string[]): Promise<unknown>;
  duplicate(...args: never[]): unknown;
  on(event: ClientEvent, listener: (error: Error) => void): unknown;
  off(event: ClientEvent, listener: (error: Error) => void): unknown;
}

/** The client events that the store listens to. Only Cluster clients emit `node error`. */
export type ClientEvent = "error" | "connecting" | "ready" | "end" | "node error";

/** Commands that are sent together. Replies are raw bytes. */
export interface RedisPipeline {
  callBuffer(command: string, args: (string | Buffer | number)[]): RedisPipeline;
  exec(): Promise<[error: Error | null, reply: unknown][] | null>;
}

/** What a Cluster client has in addition: the nodes of each slot, the master first. */
export interface RedisClusterClient extends RedisClient {
  readonly isCluster: true;
  readonly slots: string[][];
  nodes(role: "master" | "all"): RedisClient[];
}

/** A connection that was duplicated from the client. */
export interface RedisConnection {
  on(event: "connect" | "ready" | "end", listener: () => void): unknown;
  on(event: "error" | "node error", listener: (error: Error) => void): unknown;
  disconnect(): void;
}

/** A connection for subscriptions. */
export interface RedisSubscriber extends RedisConnection {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  on(event: "connect" | "ready" | "end", listener: () => void): unknown;
  on(event: "messageBuffer", listener: (channel: Buffer, message: Buffer) => void): unknown;
  on(event: "error" | "node error", listener: (error: Error) => void): unknown;
}

export function isCluster(client: RedisClient): client is RedisClusterClient {
  return (client as { isCluster?: unknown }).isCluster === true;
}

/**
 * Whether the client sends the calls of a tick in one pipeline. ioredis then loses the name of a command that is passed to
 * `callBuffer`, so that only explicit pipelines can be used.
 */
export const isAutoPipelined = ({ options }: RedisClient): boolean =>
  (options as { readonly enableAutoPipelining?: boolean } | undefined)?.enableAutoPipelining === true;
