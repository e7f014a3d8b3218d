import { useState } from "preact/hooks";
import type { Polled } from "./api.js";
import { bytes, clock, count, duration, plural, visible, words } from "./format.js";
import {
  Column,
  Empty,
  ExportButton,
  Filter,
  MissingNote,
  Name,
  Panel,
  processNames,
  TableBox,
  Waiting,
} from "./parts.js";
import { Stream } from "./stream.js";
import type { Overview, ProcessState } from "./types.js";

/** What runs and waits now, and what has happened. */
export function ActivityView({ overview }: { readonly overview: Polled<Overview> }) {
  const { data = {}, missing } = overview;
  const [filter, setFilter] = useState("");
  const nameOf = processNames(data.processes);
  const { leases, states } = data;
  return (
    <div class="grid">
      <Panel
        title="Leases"
        id="leases"
        wide
        note="Loads under way, and values that are being stored, oldest first."
        actions={<ExportButton name="leases" value={leases} />}
      >
        <MissingNote missing={missing} of="leases" />
        {leases === undefined ? (
          <Waiting polled={overview} />
        ) : leases.length === 0 ? (
          <Empty>Nothing is being loaded right now.</Empty>
        ) : (
          <TableBox label="Leases">
            <table class="data">
              <caption class="sr-only">Leases</caption>
              <thead>
                <tr>
                  <Column>Field or loader</Column>
                  <Column minor>Key</Column>
                  <Column>State</Column>
                  <Column numeric>For</Column>
                  <Column numeric>Waiting</Column>
                  <Column minor>Process</Column>
                </tr>
              </thead>
              <tbody>
                {leases.map((lease) => (
                  <tr key={`${lease.process} ${lease.coordinate} ${lease.digest}`}>
                    <th scope="row">
                      <Name max={120}>{lease.coordinate}</Name>
                    </th>
                    <td class="minor">
                      <code>#{visible(lease.digest, 12)}</code>
                    </td>
                    <td>
                      {words(lease.state)}
                      {lease.isRefresh ? <span class="muted">, refresh</span> : null}
                    </td>
                    <td class="num" title={`since ${clock(lease.since)}`}>
                      {duration(lease.forMs)}
                    </td>
                    <td class="num">{count(lease.waiters)}</td>
                    <td class="minor muted">
                      <Name>{nameOf(lease.process)}</Name>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </TableBox>
        )}
      </Panel>
      <Panel title="Waiting, by process" id="waiting" wide>
        <MissingNote missing={missing} of="states" />
        {states === undefined || states.length === 0 ? (
          <Waiting polled={overview} />
        ) : (
          <TableBox label="Waiting, by process">
            <table class="data">
              <caption class="sr-only">What waits in each process</caption>
              <thead>
                <tr>
                  <Column>Process</Column>
                  <Column numeric title="Readers that wait for a load">
                    Readers
                  </Column>
                  <Column numeric>Leases</Column>
                  <Column numeric minor title="Loads without a lease: running, and waiting">
                    Unleased
                  </Column>
                  <Column minor>Near cache</Column>
                  <Column minor>Unconfirmed invalidations</Column>
                </tr>
              </thead>
              <tbody>
                {states.map((state) => (
                  <tr key={state.process}>
                    <th scope="row">
                      <Name>{nameOf(state.process)}</Name>
                    </th>
                    <td class="num">{count(state.queues.waitingReaders)}</td>
                    <td class="num">{count(state.leases)}</td>
                    <td class="num minor">{`${count(state.queues.unleasedRunning)} + ${count(state.queues.unleasedQueued)}`}</td>
                    <td class="minor muted">{nearText(state)}</td>
                    <td class={unconfirmedText(state) === "none" ? "minor muted" : "minor bad"}>
                      {unconfirmedText(state)}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </TableBox>
        )}
      </Panel>
      <Panel
        title="Events and invalidations"
        id="stream"
        wide
        note={
          data.invalidations
            ? `Invalidations are known since ${clock(data.invalidations.since)}${data.invalidations.isThisProcessOnly ? ", of the answering process only" : ""}. Equal events are one, with a count.`
            : undefined
        }
        actions={
          <ExportButton
            name="events"
            value={data.events && { events: data.events, invalidations: data.invalidations }}
          />
        }
      >
        <div class="toolbar">
          <Filter value={filter} example="store.failed" onChange={setFilter} />
        </div>
        <MissingNote missing={missing} of="events" />
        <MissingNote missing={missing} of="invalidations" />
        <Stream overview={data} limit={200} nameOf={nameOf} filter={filter} />
      </Panel>
    </div>
  );
}

function nearText({ nearCache }: ProcessState): string {
  if (nearCache === null) return "none";
  return `${plural(nearCache.entries, "value")}, ${bytes(nearCache.bytes)}, ${count(nearCache.hits)} hits${nearCache.isLive ? "" : ", not serving"}`;
}

function unconfirmedText({
  unconfirmedInvalidations: { keys, tags, coordinates, everything, since },
}: ProcessState): string {
  if (everything) return "everything";
  const sum = keys + tags + coordinates;
  return sum === 0 ? "none" : `${count(sum)} since ${clock(since)}`;
}
