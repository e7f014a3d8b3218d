import type { Polled } from "./api.js";
import { ago, clock, visible } from "./format.js";
import { DataTable, Name, Panel, Waiting } from "./parts.js";
import type { Overview } from "./types.js";

const HEADINGS = ["Host", "PID", "Version", "Node.js", "Started", "Last report"];
const MINOR = ["Node.js", "Started"];
const COLUMNS = HEADINGS.map((text) => ({ text, isNumeric: text === "PID", isMinor: MINOR.includes(text) }));

/** The processes that use the cache, and their releases. */
export function ProcessesView({ overview }: { readonly overview: Polled<Overview> }) {
  const { data } = overview;
  return (
    <Panel
      title="Processes"
      id="processes"
      note="A process reports every five seconds while somebody looks. One that has not done so for a minute is not listed."
    >
      {data === undefined ? (
        <Waiting polled={overview} />
      ) : (
        <DataTable label="Processes" columns={COLUMNS}>
          {data.processes.map((process) => (
            <tr key={process.id}>
              <th scope="row">
                <Name max={80}>{process.host}</Name>
                <span class="muted">
                  {process.isThis ? ", which answers" : process.isComplete ? "" : ", whose counts follow"}
                </span>
              </th>
              <td class="num">{process.pid}</td>
              <td>{visible(process.version, 40)}</td>
              <td class="minor muted">{visible(process.nodeVersion, 40)}</td>
              <td class="minor muted">{clock(process.startedAt)}</td>
              <td title={clock(process.reportedAt)}>{process.isThis ? "now" : ago(process.reportedAt)}</td>
            </tr>
          ))}
        </DataTable>
      )}
    </Panel>
  );
}
