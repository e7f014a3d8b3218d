export interface FoundServer {
  readonly server: string;
  readonly version: string;
}
export interface SetupOptions {
  readonly named?: string;
  readonly onPath?: readonly string[];
  readonly cache?: string;
  readonly fetch?: (cache: string) => string | undefined;
}
