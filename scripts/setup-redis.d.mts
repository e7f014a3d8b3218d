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
export function fetchServer(cache: string, unpack?: (home: string) => void): string | undefined;
