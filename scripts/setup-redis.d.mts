export interface RedisServer {
  readonly server: string;
  readonly version: string;
}
export function setupRedis(options?: {
  readonly named?: string;
  readonly onPath?: readonly string[];
  readonly cache?: string;
  readonly fetch?: (cache: string) => string | undefined;
}): RedisServer;
