/** The commands of a process that has not imported graphql-cached yet. */
import { loadLibrary } from "./library.js";

export async function open() {
  /** Returns how long the import takes beside that of graphql and ioredis, which every server has. */
  const measure = async (_: object): Promise<number> => {
    await import("graphql");
    const startedAt = performance.now();
    await loadLibrary();
    return performance.now() - startedAt;
  };
  return { measure };
}

export type ImportCommands = Awaited<ReturnType<typeof open>>;
