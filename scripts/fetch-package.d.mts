export interface FoundServer {
  /** Path or name of the program. */
  readonly server: string;
  readonly version: string;
}
export interface SetupOptions {
  /** Path of the program. Default: the environment variable of the server. */
  readonly named?: string;
  /** Programs to try before the cache. */
  readonly onPath?: readonly string[];
  /** Folder of downloaded servers. */
  readonly cache?: string;
  /** Downloads a server into the cache. Returns the reason if it cannot. */
  readonly fetch?: (cache: string) => string | undefined;
}
