import { tmpdir } from "node:os";
import { join } from "node:path";

/** Returns the folder of the files of a run, by the process that has started it. */
export const sqliteFolder = (pid: number): string => join(tmpdir(), `graphql-cached-bench-${pid}`);
