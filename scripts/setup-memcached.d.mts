import type { FoundServer, SetupOptions } from "./fetch-package.mjs";

export function setupMemcached(options?: SetupOptions): FoundServer;
