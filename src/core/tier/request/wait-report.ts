import type { Channel } from "../../telemetry/channel.js";
import type { AwaitedLoad, ReadRequest } from "./request.js";

/** Reports that `request` has waited, unless it has not, or for its own load. */
export function reportWait(
  request: ReadRequest,
  { request: awaited, gen }: AwaitedLoad,
  waitMs: number,
  channel: Channel,
): void {
  if (awaited === undefined || awaited === request) return;
  const { key } = request;
  const { coordinate } = key;
  channel.waited(coordinate, key, waitMs, awaited !== "elsewhere");
  const load = awaited === "elsewhere" ? undefined : awaited.trace?.load;
  if (request.trace !== undefined)
    channel.tracing?.waited({ coordinate, waitMs, parent: request.trace.parent, load, gen });
}
