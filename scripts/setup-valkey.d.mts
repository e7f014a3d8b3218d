import type { FoundServer, SetupOptions } from "./fetch-package.mjs";

export function setupValkey(options?: SetupOptions): FoundServer;
