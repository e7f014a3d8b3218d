import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import type { Redis } from "ioredis";

/**
 * Keeps Redis on the last core beside one measured process, which may run on any, and on any beside several. Left to the kernel,
 * both share a core in some samples. Without effect where the tool for it is missing.
 */
export async function placeRedis(control: Redis, processes: number): Promise<void> {
  const pid = /^process_id:(\d+)/m.exec(await control.info("server"))?.[1];
  const last = availableParallelism() - 1;
  if (pid === undefined || process.platform !== "linux") return;
  spawnSync("taskset", ["-a", "-p", "-c", processes === 1 ? String(last) : `0-${last}`, pid], { stdio: "ignore" });
}
