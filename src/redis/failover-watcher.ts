import type { Cancel } from "../clock.js";
import { isCluster, type RedisClient, type RedisClusterClient } from "./redis-client.js";

/**
 * Calls `onLoss` whenever Redis may have lost writes it had confirmed: a connection is there anew, so the server was restarted or another took
 * its place; or another node of a Cluster has become master of a slot. Also when nothing was lost: that cannot be told from here.
 */
export function watchFailovers(client: RedisClient, onLoss: () => void): Cancel {
  if (!isCluster(client)) {
    let isFirst = client.status !== "ready";
    const onReady = (): void => {
      if (!isFirst) onLoss();
      isFirst = false;
    };
    client.on("ready", onReady);
    return () => client.off("ready", onReady);
  }
  let masters = mastersOf(client);
  const onNode = (): void => {
    if (masters !== "") onLoss();
  };
  const onRefresh = (): void => {
    const current = mastersOf(client);
    if (current === masters) return;
    const wasKnown = masters !== "";
    masters = current;
    if (wasKnown) onLoss();
  };
  client.on("+node", onNode);
  client.on("refresh", onRefresh);
  return () => {
    client.off("+node", onNode);
    client.off("refresh", onRefresh);
  };
}

/** Which node is master of which slots, as text to compare: each range's first slot and its node. */
function mastersOf({ slots }: RedisClusterClient): string {
  let last = "";
  return slots
    .flatMap((nodes, slot) => {
      const master = nodes?.[0] ?? "";
      if (master === last) return [];
      last = master;
      return [`${slot} ${master}`];
    })
    .join(",");
}
