import type { Polled } from "./api.js";
import { RateChart, type Rates } from "./chart.js";
import { bytes, count, duration, percent, plural, rate, words } from "./format.js";
import { isKnown, keyText, linkTo, NO_KEY, partsOfHotKey } from "./key.js";
import { bypassesByField, callsPastCache, meaningOf } from "./obstacle.js";
import { Empty, Meter, MissingNote, Name, Panel, processNames, Waiting } from "./parts.js";
import { Stream } from "./stream.js";
import type { Field, Overview } from "./types.js";

const MAX_BYPASSES = 10;

/** The numbers that tell whether all is well, and where to look if it is not. */
export function OverviewView(props: {
  readonly overview: Polled<Overview>;
  readonly fields: Polled<{ readonly fields?: readonly Field[] }>;
  readonly rates: readonly Rates[];
  readonly windowText: string;
}) {
  const { data = {}, missing } = props.overview;
  const { stats, states, processes, leases } = data;
  const now = props.rates.at(-1);
  const waiting = (states ?? []).reduce((sum, { queues }) => sum + queues.waitingReaders, 0);
  const alive = (processes ?? []).filter(({ isAlive }) => isAlive).length;
  const nameOf = processNames(processes);
  const byField = bypassesByField(props.fields.data?.fields ?? []);
  const bypasses = byField.length > 0 ? byField : (stats?.bypasses ?? []).map((one) => ({ coordinate: "", ...one }));
  return (
    <div class="grid">
      <section class="tiles wide" aria-label={`Key figures, ${props.windowText}`}>
        <Tile label="Reads a second" value={rate(now?.reads)} note="over ten seconds" />
        <Tile label="Hit ratio" value={percent(stats?.hitRatio)} note={stats && `of ${plural(stats.reads, "read")}`} />
        <Tile label="Loads saved" value={count(stats?.loadsSaved)} note={stats && `${count(stats.loads)} ran`} />
        <Tile
          label="Load time, p90"
          value={duration(stats?.loadMs?.p90Ms)}
          note={stats?.loadMs && `p99 ${duration(stats.loadMs.p99Ms)}`}
        />
        <Tile
          label="Failed loads"
          value={count(stats?.failedLoads)}
          note={stats && `${count(stats.refusedStores ?? 0)} outdated meanwhile`}
          isBad={(stats?.failedLoads ?? 0) > 0}
        />
        <Tile
          label="Readers waiting"
          value={count(waiting)}
          note={leases && `${plural(leases.length, "lease")} held`}
        />
        <Tile label="Processes" value={count(alive)} note="that report" />
      </section>
      <Panel title="Reads by outcome" id="rates" wide>
        <MissingNote missing={missing} of="total" />
        <RateChart rates={props.rates} />
      </Panel>
      <TopLoads fields={props.fields} />
      <TopKeys overview={props.overview} />
      <Panel title="Why reads bypassed the cache" id="bypasses">
        {stats === undefined ? (
          <Waiting polled={props.overview} />
        ) : (stats.bypasses ?? []).length === 0 ? (
          <Empty>No read has bypassed the cache in this time.</Empty>
        ) : (
          <ul class="ranking">
            {bypasses.slice(0, MAX_BYPASSES).map(({ coordinate, reason, reads }) => (
              <li key={`${coordinate} ${reason}`}>
                <span>
                  {coordinate === "" ? null : (
                    <a href={linkTo({ ...NO_KEY, coordinate })}>
                      <Name max={80}>{coordinate}</Name>
                    </a>
                  )}{" "}
                  {words(reason)}
                  <span class="muted">{meaningOf(reason) === "" ? "" : `: ${meaningOf(reason)}`}</span>
                </span>
                <span class="num">{plural(reads, "read")}</span>
              </li>
            ))}
          </ul>
        )}
        {stats === undefined ? null : (
          <p class="note">
            {`Stored ${bytes(stats.storedBytes)}, read ${bytes(stats.readBytes)} from the store; ${plural(stats.storeFailures ?? 0, "store operation")} failed.`}
          </p>
        )}
        {(stats?.missing ?? []).map((one) => (
          <p class="warning" key={one}>
            <Name>{one}</Name>
          </p>
        ))}
        <MissingNote missing={missing} of="stats" />
      </Panel>
      <Panel title="Latest" id="latest" actions={<a href="#activity">All activity</a>}>
        <Stream overview={data} limit={4} nameOf={nameOf} />
      </Panel>
    </div>
  );
}

function Tile(props: {
  readonly label: string;
  readonly value: string;
  readonly note?: string | undefined;
  readonly isBad?: boolean;
}) {
  return (
    <div class={props.isBad ? "tile bad" : "tile"}>
      <span class="tile-label">{props.label}</span>
      <span class="tile-value">{props.value}</span>
      <span class="tile-note">{props.note ?? " "}</span>
    </div>
  );
}

function TopLoads({ fields }: { readonly fields: Polled<{ readonly fields?: readonly Field[] }> }) {
  const ranked = (fields.data?.fields ?? [])
    .map((field) => {
      const past = callsPastCache(field);
      return { coordinate: field.coordinate, loads: field.stats.loads, past, calls: field.stats.loads + past };
    })
    .filter(({ calls }) => calls > 0)
    .toSorted((one, other) => other.calls - one.calls)
    .slice(0, 5);
  const most = ranked[0]?.calls ?? 1;
  return (
    <Panel title="Loads most" id="top-loads" actions={<a href="#fields">All fields</a>}>
      <MissingNote missing={fields.missing} of="fields" />
      {fields.data === undefined ? (
        <Waiting polled={fields} />
      ) : ranked.length === 0 ? (
        <Empty>Nothing was loaded in this time.</Empty>
      ) : (
        <ol class="ranking">
          {ranked.map(({ coordinate, loads, past, calls }) => (
            <li key={coordinate}>
              <a class="ranking-name" href={linkTo({ ...NO_KEY, coordinate })}>
                <Name max={80}>{coordinate}</Name>
              </a>
              <Meter ratio={calls / most} tone={past > loads ? "bypassed" : "loaded"} />
              <span class="num">{past > loads ? `${plural(past, "read")} past the cache` : plural(calls, "load")}</span>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

function TopKeys({ overview }: { readonly overview: Polled<Overview> }) {
  const keys = overview.data?.hotKeys?.keys ?? [];
  const most = keys[0]?.reads ?? 1;
  return (
    <Panel title="Hottest keys" id="top-keys" actions={<a href="#keys">All hot keys</a>}>
      <MissingNote missing={overview.missing} of="hotKeys" />
      {overview.data?.hotKeys === undefined ? (
        <Waiting polled={overview} />
      ) : keys.length === 0 ? (
        <Empty>None yet. Reads are counted by key from now on, while this page is open.</Empty>
      ) : (
        <ol class="ranking">
          {keys.slice(0, 5).map((key) => (
            <li key={`${key.coordinate} ${key.digest}`}>
              <span class="ranking-name">
                <Name max={80}>{key.coordinate}</Name>{" "}
                {isKnown(key) ? <a href={linkTo(partsOfHotKey(key))}>{keyText(key)}</a> : <code>{keyText(key)}</code>}
              </span>
              <Meter ratio={key.reads / most} />
              <span class="num">{plural(key.reads, "read")}</span>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}
