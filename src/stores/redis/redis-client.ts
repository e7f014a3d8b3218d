/** A client that `redisStore` and `bloomGuard` take. Nothing is imported from any of them, not even types. */
export type RedisClient = IoredisClient | NodeRedisClient;

/**
 * The part of a client of ioredis 5.4 or newer, ioredis 6 and iovalkey that the store uses: standalone, behind Sentinel and
 * as a Cluster.
 */
export interface IoredisClient {
  readonly options: object;
  readonly status: string;
  /** The present connection, once there is one. */
  readonly stream?: { readonly bytesRead: number } | undefined;
  pipeline(): RedisPipeline;
  callBuffer(command: string, ...args: (string | Buffer | number)[]): Promise<unknown>;
  mgetBuffer(...keys: string[]): Promise<unknown>;
  duplicate(...args: never[]): unknown;
  on(event: IoredisEvent, listener: (error: Error) => void): unknown;
  off(event: IoredisEvent, listener: (error: Error) => void): unknown;
}

/** The events of ioredis that the store listens to. Only Cluster clients emit `node error`. */
export type IoredisEvent = "error" | "connecting" | "ready" | "end" | "node error";

/** Commands that are sent together. Replies are raw bytes. */
export interface RedisPipeline {
  callBuffer(command: string, args: (string | Buffer | number)[]): RedisPipeline;
  exec(): Promise<[error: Error | null, reply: unknown][] | null>;
}

/**
 * What the clients of node-redis (the packages `redis` and `@redis/client`) 5 or newer have in common: those of `createClient`,
 * `createCluster` and `createSentinel`.
 */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  connect(): Promise<unknown>;
  withTypeMapping(...args: never[]): unknown;
  sendCommand(...args: never[]): Promise<unknown>;
}
