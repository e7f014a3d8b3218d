import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import type { Redis } from "ioredis";

/**
 * The cores of a measured process and of its Redis. Left to the kernel, both are on one core in some samples and on
 * two in others: then a reply wakes a core that sleeps, and a read takes two to three times as long.
 */
const PROCESS_CORE = 0;
const REDIS_CORE = 1;

const canPlace = process.platform === "linux" && availableParallelism() > REDIS_CORE;

/** Keeps the main thread of a process on some cores. Without effect where the tool for it is missing. */
function place(pid: number, cores: string): void {
  if (canPlace) spawnSync("taskset", ["-p", "-c", cores, String(pid)], { stdio: "ignore" });
}

/** Places a process that is measured alone. Its threads for garbage collection and compilation run on any core. */
export const placeAlone = (pid: number): void => place(pid, String(PROCESS_CORE));

/** Places Redis for one measured process, on a core of its own, or for several, on any. */
export async function placeRedis(control: Redis, processes: number): Promise<void> {
  const pid = /^process_id:(\d+)/m.exec(await control.info("server"))?.[1];
  if (pid !== undefined)
    place(Number(pid), processes === 1 ? String(REDIS_CORE) : `${PROCESS_CORE}-${availableParallelism() - 1}`);
}
