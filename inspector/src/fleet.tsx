import type { Polled } from "./api.js";
import { ago, bytes, clock, count, duration, percent, plural, visible, words } from "./format.js";
import { Column, ExportButton, Meter, MissingNote, Name, Panel, processNames, TableBox, Waiting } from "./parts.js";
import type { Overview, Store, StoreNode } from "./types.js";

/** The processes, and the store that they share. */
export function FleetView({
  overview,
  store,
}: {
  readonly overview: Polled<Overview>;
  readonly store: Polled<{ readonly store?: Store }>;
}) {
  const processes = overview.data?.processes;
  const nameOf = processNames(processes);
  const shown = store.data?.store;
  return (
    <div class="grid">
      <Panel title="Store" id="store" wide actions={<ExportButton name="store" value={shown} />}>
        <MissingNote missing={store.missing} of="store" />
        {shown === undefined ? (
          <Waiting polled={store} />
        ) : (
          shown.nodes.map((node) => <Node key={node.node} node={node} kind={shown.name} nameOf={nameOf} />)
        )}
      </Panel>
      <Panel
        title="Processes"
        id="processes"
        wide
        note="All that have reported in the last 70 minutes. The one that answers comes first."
        actions={<ExportButton name="processes" value={processes} />}
      >
        <MissingNote missing={overview.missing} of="processes" />
        {processes === undefined ? (
          <Waiting polled={overview} />
        ) : (
          <TableBox label="Processes">
            <table class="data">
              <caption class="sr-only">Processes</caption>
              <thead>
                <tr>
                  <Column>Host</Column>
                  <Column numeric>Pid</Column>
                  <Column>State</Column>
                  <Column minor>Version</Column>
                  <Column minor>Node.js</Column>
                  <Column minor>Started</Column>
                  <Column>Last report</Column>
                </tr>
              </thead>
              <tbody>
                {processes.map((process) => (
                  <tr key={process.id}>
                    <th scope="row">
                      <Name max={80}>{process.host || process.id}</Name>
                      {process.missing ? (
                        <div class="muted small">
                          <Name>{process.missing}</Name>
                        </div>
                      ) : null}
                    </th>
                    <td class="num">{process.host ? String(process.pid) : "–"}</td>
                    <td>
                      {process.isThis ? (
                        "answers this page"
                      ) : process.isAlive ? (
                        "reports"
                      ) : (
                        <span class="muted">ended</span>
                      )}
                    </td>
                    <td class="minor">
                      <Name max={40}>{process.version}</Name>
                    </td>
                    <td class="minor">
                      <Name max={40}>{process.nodeVersion}</Name>
                    </td>
                    <td class="minor" title={clock(process.startedAt)}>
                      {ago(process.startedAt)}
                    </td>
                    <td title={clock(process.reportedAt)}>{process.isThis ? "now" : ago(process.reportedAt)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </TableBox>
        )}
      </Panel>
    </div>
  );
}

function Node({
  node,
  kind,
  nameOf,
}: {
  readonly node: StoreNode;
  readonly kind: string;
  readonly nameOf: (id: string) => string;
}) {
  const { server } = node;
  const title = node.node === "" ? visible(kind, 60) : `${visible(kind, 60)}, ${visible(node.node, 100)}`;
  return (
    <article class="node">
      <h3>{title}</h3>
      {server === null ? (
        <p class="warning">
          The server does not reply: <Name>{node.serverMissing ?? "it says nothing of itself"}</Name>
        </p>
      ) : (
        <dl class="facts">
          {server.version === null ? null : (
            <Fact name="Server">{visible([server.version, server.role].filter(Boolean).join(", "), 80)}</Fact>
          )}
          <Fact name="Keys">{count(server.entries)}</Fact>
          <Fact name="Memory">
            {server.maxBytes !== null && server.usedBytes !== null && server.maxBytes > 0 ? (
              <>
                <Meter
                  ratio={server.usedBytes / server.maxBytes}
                  tone={server.usedBytes / server.maxBytes > 0.9 ? "bad" : "hit"}
                />{" "}
                {`${bytes(server.usedBytes)} of ${bytes(server.maxBytes)} (${percent(server.usedBytes / server.maxBytes)})`}
              </>
            ) : (
              `${bytes(server.usedBytes)}, no limit`
            )}
          </Fact>
          <Fact name="Evictions">
            {[
              server.evictions === null ? undefined : count(server.evictions),
              server.evictionPolicy === null ? undefined : visible(server.evictionPolicy, 40),
            ]
              .filter(Boolean)
              .join(", ") || "–"}
          </Fact>
        </dl>
      )}
      {node.connections.length === 0 ? null : (
        <TableBox label={`Connections to ${title}`}>
          <table class="data">
            <caption class="sr-only">How each process reaches {title}</caption>
            <thead>
              <tr>
                <Column>Process</Column>
                <Column>Breaker</Column>
                <Column numeric>p50</Column>
                <Column numeric>p99</Column>
                <Column numeric minor>
                  Operations
                </Column>
                <Column numeric>Failed</Column>
                <Column minor>Last failure</Column>
              </tr>
            </thead>
            <tbody>
              {node.connections.map((one) => {
                const last = one.lastConnectionError ?? one.lastFailure;
                return (
                  <tr key={one.process}>
                    <th scope="row">
                      <Name>{nameOf(one.process)}</Name>
                    </th>
                    <td>
                      <span class={one.breaker.state === "CLOSED" ? "muted" : "badge trouble"}>
                        {one.breaker.state === "CLOSED" ? "closed" : words(one.breaker.state)}
                      </span>
                    </td>
                    <td class="num">{duration(one.latency?.p50Ms)}</td>
                    <td class="num">{duration(one.latency?.p99Ms)}</td>
                    <td class="num minor">{count(one.operations)}</td>
                    <td class={one.failures > 0 ? "num bad" : "num"}>{count(one.failures)}</td>
                    <td class="minor">
                      {last === null ? (
                        <span class="muted">none</span>
                      ) : (
                        <>
                          {clock(last.at)} <Name max={160}>{last.message}</Name>
                        </>
                      )}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </TableBox>
      )}
    </article>
  );
}

const Fact = ({ name, children }: { readonly name: string; readonly children: preact.ComponentChildren }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);

/** Returns what is wrong with the store, in a sentence. Undefined: nothing that is known. */
export function storeTrouble(store: Store | undefined): string | undefined {
  if (store === undefined) return undefined;
  const silent = store.nodes.filter(
    ({ server, serverMissing, connections }) => server === null && serverMissing !== null && connections.length > 0,
  );
  const open = store.nodes.flatMap(({ connections }) => connections).filter(({ breaker }) => breaker.state === "OPEN");
  if (silent.length === 0 && open.length === 0) return undefined;
  const nodes =
    silent.length === 0
      ? ""
      : `${silent.length === store.nodes.length ? "The store does" : `${plural(silent.length, "node")} of the store ${silent.length === 1 ? "does" : "do"}`} not reply. `;
  const breakers =
    open.length === 0 ? "" : `${plural(open.length, "process has", "processes have")} stopped asking it for now. `;
  return `${nodes}${breakers}Requests load from their sources meanwhile.`;
}
