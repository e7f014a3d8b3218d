import type { Polled } from "./api.js";
import { Legend, MinuteChart } from "./chart.js";
import { countsIn, servedWithoutLoad, WINDOWS, type Window } from "./counts.js";
import { EventList } from "./events.js";
import { count, duration, percent, plural, words } from "./format.js";
import { linkTo } from "./key.js";
import { Name, type NameOf, Panel, Ranking, Waiting } from "./parts.js";
import type { Overview } from "./types.js";

/** The numbers that tell whether all is well, and where to look if it is not. */
export function OverviewView(props: {
  readonly overview: Polled<Overview>;
  readonly window: Window;
  readonly nameOf: NameOf;
}) {
  const { data } = props.overview;
  if (data === undefined) return <Waiting polled={props.overview} />;
  const { total, fields } = data.counts;
  const counts = countsIn(total, props.window);
  const { loadMs, refusedStores } = total.sinceStart;
  const when = WINDOWS[props.window];
  const loading = fields.flatMap((field) => {
    const [key, value] = [field.coordinate ?? "", countsIn(field, props.window).loads];
    const label = (
      <a href={linkTo({ coordinate: key })}>
        <Name max={80}>{key}</Name>
      </a>
    );
    return value === 0 ? [] : [{ key, value, label }];
  });
  const bypasses = fields.flatMap(({ coordinate, sinceStart }) =>
    sinceStart.bypasses.map(({ reason, reads }) => {
      const label = (
        <>
          <Name max={80}>{coordinate}</Name> <span class="muted">{words(reason)}</span>
        </>
      );
      return { key: `${coordinate} ${reason}`, value: reads, label };
    }),
  );
  const onPurpose = counts.bypassedOnPurpose;
  return (
    <div class="grid">
      <section class="tiles wide" aria-label={`Key figures, ${when}`}>
        <div class="tile headline">
          <span class="tile-label">Served without a load</span>
          <span class="tile-value">{percent(servedWithoutLoad(counts))}</span>
          <span class="tile-label">
            {counts.reads === 0
              ? "There were no reads."
              : `${count(counts.hit)} hit, ${count(counts.stale)} stale, ${count(counts.coalesced)} coalesced of ${plural(counts.reads - onPurpose, "read")}${onPurpose > 0 ? `; ${count(onPurpose)} bypassed on purpose` : ""}`}
          </span>
        </div>
        {[
          ["Loads", count(counts.loads), when],
          ["Failed loads", count(counts.failedLoads), when, counts.failedLoads > 0 ? "bad" : ""],
          ["Load time, p90", duration(loadMs.p90Ms), `p99 ${duration(loadMs.p99Ms)}, since the start`],
          ["Not stored", count(refusedStores), "loads, since the start"],
          ["Processes", count(data.processes.length), `${count(data.counts.processes)} with their counts`],
        ].map(([label, value, note, tone]) => (
          <div class="tile" key={label}>
            <span class="tile-label">{label}</span>
            <span class={`tile-value ${tone ?? ""}`}>{value}</span>
            <span class="tile-label">{note}</span>
          </div>
        ))}
      </section>
      <Panel title="Reads by minute" id="rates" wide>
        <div class="chart-box">
          <MinuteChart minutes={total.minutes} label="Reads by minute and outcome" />
          <Legend counts={counts} />
        </div>
      </Panel>
      <Panel title="Loads most" id="top-loads" actions={<a href="#fields">All fields</a>}>
        <Ranking rows={loading} unit="load" tone="loaded" empty="Nothing was loaded in this time." />
      </Panel>
      <Panel title="Why reads bypassed the cache" id="bypasses" actions={<span class="muted">since the start</span>}>
        <Ranking rows={bypasses} unit="read" tone="bypassed" empty="No read has bypassed the cache." />
      </Panel>
      <Panel title="Latest" id="latest" wide actions={<a href="#activity">All activity</a>}>
        <EventList events={data.events} nameOf={props.nameOf} limit={5} />
      </Panel>
    </div>
  );
}
