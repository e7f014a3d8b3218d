import type { FoundServer, SetupOptions } from "./fetch-package.mjs";

export function setupRedis(options?: SetupOptions): FoundServer;
export function fetchServer(cache: string, unpack?: (home: string) => void): string | undefined;
