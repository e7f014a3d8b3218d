// Starts the TypeScript worker: on Node 20 a worker thread does not inherit tsx from its parent.
import { tsImport } from "tsx/esm/api";

await tsImport("./database-worker.ts", import.meta.url);
