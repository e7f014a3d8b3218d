/** The commands of a process that has not imported graphql-cached yet. */
import { loadLibrary } from "./library.js";

export async function open() {
  /** Returns what the import takes beside that of graphql and ioredis, which every server has. */
  const measure = async (_: object) => {
    await import("graphql");
    const startedAt = performance.now();
    const cpu = process.cpuUsage();
    await loadLibrary();
    const { user, system } = process.cpuUsage(cpu);
    return { cpuMs: (user + system) / 1e3, elapsedMs: performance.now() - startedAt };
  };
  return { measure };
}

export type ImportCommands = Awaited<ReturnType<typeof open>>;
