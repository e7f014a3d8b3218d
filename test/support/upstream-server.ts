import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * A slow service that GraphQL servers fetch from. It answers a path once the test releases it.
 */
export interface Upstream {
  readonly url: string;
  /** The number of requests for a path. */
  requests(path: string): number;
  /** The number of requests for a path whose client has hung up. */
  hangUps(path: string): number;
  /** Answers the waiting and all later requests for a path with their number. */
  release(path: string): void;
  close(): Promise<void>;
}

interface Row {
  requests: number;
  hangUps: number;
  isReleased: boolean;
  readonly waiting: Set<() => void>;
}

export async function startUpstream(): Promise<Upstream> {
  const rows = new Map<string, Row>();
  const rowOf = (path: string): Row => {
    const row = rows.get(path) ?? { requests: 0, hangUps: 0, isReleased: false, waiting: new Set() };
    rows.set(path, row);
    return row;
  };
  const onRequest = ({ url = "" }: IncomingMessage, response: ServerResponse): void => {
    const row = rowOf(url);
    const answer = String(++row.requests);
    const end = (): void => void response.end(answer);
    response.on("close", () => {
      if (!response.writableFinished) row.hangUps++;
    });
    if (row.isReleased) end();
    else row.waiting.add(end);
  };
  const server = createServer(onRequest).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: (path) => rowOf(path).requests,
    hangUps: (path) => rowOf(path).hangUps,
    release(path) {
      const row = rowOf(path);
      row.isReleased = true;
      for (const end of row.waiting) end();
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
