import type { Cancel } from "../clock.js";
import type { ClientEvents } from "./client-events.js";
import { isCluster, type RedisClient, type RedisClusterClient } from "./redis-client.js";

/**
 * Calls `onLoss` whenever Redis may have lost writes that it had confirmed: after a reconnect,
 * since the server may have restarted or been replaced by another, and when another node of a
 * Cluster has become the master of a slot. It also calls `onLoss` when nothing was lost: the client
 * cannot tell the difference, the markers can.
 */
export function watchFailovers(client: RedisClient, events: ClientEvents, onLoss: () => void): Cancel {
  if (!isCluster(client)) {
    let isFirst = client.status !== "ready";
    const onReady = (): void => {
      if (!isFirst) onLoss();
      isFirst = false;
    };
    return events.listen("ready", onReady);
  }
  let masters = describeMasters(client);
  const onNode = (): void => {
    if (masters !== "") onLoss();
  };
  const onRefresh = (): void => {
    const current = describeMasters(client);
    if (current === masters) return;
    const wasKnown = masters !== "";
    masters = current;
    if (wasKnown) onLoss();
  };
  const stops = [events.listen("+node", onNode), events.listen("refresh", onRefresh)];
  return () => {
    for (const stop of stops) stop();
  };
}

/**
 * Returns which node is the master of which slots as a comparable string: the first slot of each
 * range and its node.
 */
function describeMasters({ slots }: RedisClusterClient): string {
  let previous = "";
  return slots
    .flatMap((nodes, slot) => {
      const master = nodes?.[0] ?? "";
      if (master === previous) return [];
      previous = master;
      return [`${slot} ${master}`];
    })
    .join(",");
}
