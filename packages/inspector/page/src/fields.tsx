import { Fragment } from "preact";
import { useState } from "preact/hooks";
import type { Polled } from "./api.js";
import { Legend, MinuteChart } from "./chart.js";
import { countsIn, servedWithoutLoad, WINDOWS, type Window } from "./counts.js";
import { count, duration, percent, plural, seconds, visible, words } from "./format.js";
import { linkTo } from "./key.js";
import { type Column, DataTable, Empty, Facts, Filter, Meter, Name, Panel, Waiting } from "./parts.js";
import type { Counts, FieldPolicy, Overview, Policies, Series } from "./types.js";

const PAGE = 100;

interface Row {
  readonly coordinate: string;
  readonly series: Series | undefined;
  readonly counts: Counts;
  readonly policy: FieldPolicy | undefined;
}

/** The columns that sort: a heading, its meaning, the rank of a row, and whether a phone goes without it. */
const COLUMNS = {
  coordinate: ["Name", "Sort by name", () => 0],
  reads: ["Reads", "Sort by reads", ({ counts }: Row) => counts.reads],
  served: [
    "Without a load",
    "Hits, stale and coalesced reads, of all that were not bypassed on purpose: the worst first",
    ({ counts }: Row) => 1 - (servedWithoutLoad(counts) ?? 2),
  ],
  loads: ["Loads", "Loads that ran, refreshes included", ({ counts }: Row) => counts.loads],
  time: ["Load p90", "90 % of the loads since the start took at most this", (row: Row) => p90Of(row) ?? -1, true],
  failed: ["Failed", "Loads that failed", ({ counts }: Row) => counts.failedLoads, true],
} as const;
type Order = keyof typeof COLUMNS;

const p90Of = ({ series }: Row): number | null | undefined => series?.sinceStart.loadMs.p90Ms;

/** Returns everything that is cached or was counted, by one of the columns. */
function rowsOf(
  overview: Overview | undefined,
  policies: Policies | undefined,
  window: Window,
  order: Order,
): readonly Row[] {
  const series = new Map((overview?.counts.fields ?? []).map((one) => [one.coordinate ?? "", one]));
  const known = new Map((policies?.policies ?? []).map((one) => [one.coordinate, one]));
  const rows = [...new Set([...known.keys(), ...series.keys()])].map((coordinate) => ({
    coordinate,
    series: series.get(coordinate),
    counts: countsIn(series.get(coordinate), window),
    policy: known.get(coordinate),
  }));
  const [, , rank] = COLUMNS[order];
  return rows.toSorted((one, other) => rank(other) - rank(one) || (one.coordinate < other.coordinate ? -1 : 1));
}

const columnsOf = (order: Order, sortBy: (order: Order) => void): readonly Column[] =>
  (Object.keys(COLUMNS) as Order[]).map((name) => {
    const [text, title, , isMinor = false] = COLUMNS[name];
    const sorting = { isSorted: order === name, onSort: () => sortBy(name) };
    return { text, title, isMinor, isNumeric: name !== "coordinate", ...sorting };
  });

/** Fields and loaders: what their policies achieve, and which mutations reach them. */
export function FieldsView(props: {
  readonly overview: Polled<Overview>;
  readonly policies: Polled<Policies>;
  readonly window: Window;
}) {
  const [order, setOrder] = useState<Order>("loads");
  const [filter, setFilter] = useState("");
  const [limit, setLimit] = useState(PAGE);
  const [open, setOpen] = useState<string>();
  const all = rowsOf(props.overview.data, props.policies.data, props.window, order);
  const wanted = filter.trim().toLowerCase();
  const shown = all.filter(({ coordinate }) => coordinate.toLowerCase().includes(wanted));
  return (
    <div class="stack">
      <Panel title="Fields and loaders" id="fields">
        <div class="row">
          <Filter value={filter} example="Query.movie" onChange={setFilter} />
          <span class="muted">{`${plural(shown.length, "row")}${wanted === "" ? "" : ` of ${count(all.length)}`}`}</span>
        </div>
        {props.overview.data === undefined && props.policies.data === undefined ? (
          <Waiting polled={props.overview} />
        ) : shown.length === 0 ? (
          <Empty>
            {wanted === ""
              ? "Nothing is cached yet: no field has `@cached`, and no loader was created."
              : "No name contains this text."}
          </Empty>
        ) : (
          <DataTable
            label={`Fields and loaders, ${WINDOWS[props.window]}. The headings sort.`}
            columns={columnsOf(order, setOrder)}
          >
            {shown.slice(0, limit).map((row) => (
              <Fragment key={row.coordinate}>
                <FieldRow
                  row={row}
                  isOpen={open === row.coordinate}
                  onToggle={() => setOpen(open === row.coordinate ? undefined : row.coordinate)}
                />
                {open === row.coordinate ? (
                  <tr class="details">
                    <td colSpan={6}>
                      <Details row={row} />
                    </td>
                  </tr>
                ) : null}
              </Fragment>
            ))}
          </DataTable>
        )}
        {shown.length > limit ? (
          <button type="button" onClick={() => setLimit(limit + PAGE)}>
            Show {Math.min(PAGE, shown.length - limit)} more of {count(shown.length - limit)}
          </button>
        ) : null}
      </Panel>
      <Mutations policies={props.policies} />
    </div>
  );
}

function FieldRow(props: { readonly row: Row; readonly isOpen: boolean; readonly onToggle: () => void }) {
  const { row, isOpen, onToggle } = props;
  const { coordinate, counts } = row;
  const ratio = servedWithoutLoad(counts);
  return (
    <tr>
      <th scope="row">
        <button type="button" class="plain" aria-expanded={isOpen} onClick={onToggle}>
          {isOpen ? "▾\u00a0" : "▸\u00a0"}
          <Name max={120}>{coordinate}</Name>
        </button>
      </th>
      <td class="num">{count(counts.reads)}</td>
      <td class="num">
        {ratio === undefined ? null : <Meter ratio={ratio} />}
        {percent(ratio).padStart(5, "\u2007")}
      </td>
      <td class="num">{count(counts.loads)}</td>
      <td class="num minor">{duration(p90Of(row))}</td>
      <td class={counts.failedLoads > 0 ? "num minor bad" : "num minor"}>{count(counts.failedLoads)}</td>
    </tr>
  );
}

function Details({ row }: { readonly row: Row }) {
  const { coordinate, counts, policy, series } = row;
  const all = series?.sinceStart;
  return (
    <div class="grid">
      {series === undefined ? (
        <p class="muted">It was not read yet.</p>
      ) : (
        <div class="wide chart-box">
          <MinuteChart minutes={series.minutes} label={`Reads of ${visible(coordinate, 120)} by minute and outcome`} />
          <Legend counts={counts} />
        </div>
      )}
      {all === undefined ? null : (
        <Facts
          of={[
            [
              "Loads",
              `${count(all.loads)} since the start, ${count(all.refreshes)} of them refreshes; ${count(all.failedLoads)} failed, ${count(all.refusedStores)} not stored`,
            ],
            [
              "Load time",
              `p50 ${duration(all.loadMs.p50Ms)}, p90 ${duration(all.loadMs.p90Ms)}, p99 ${duration(all.loadMs.p99Ms)}`,
            ],
            [
              "Bypassed",
              all.bypasses.map(({ reason, reads }) => `${words(reason)} ${count(reads)}`).join(", ") || "never",
            ],
            ["Entries", <a href={linkTo({ coordinate })}>Look up an entry</a>],
          ]}
        />
      )}
      {policy === undefined ? (
        <p class="muted">The process that answers does not have its policy.</p>
      ) : (
        <Facts of={factsOf(policy)} />
      )}
    </div>
  );
}

function factsOf({ policy, invalidatedBy, variant }: FieldPolicy): readonly (readonly [string, string | undefined])[] {
  const stale = `${seconds(policy.staleWhileRevalidate)}, refreshed in the ${words(policy.refresh)}`;
  const listed = (names: readonly string[] | null, ofLoader: string, none: string): string =>
    names === null ? ofLoader : visible(names.join(", ") || none, 1_000);
  return [
    ["Fresh for", `${seconds(policy.maxAge)}${policy.jitter > 0 ? `, up to ${percent(policy.jitter)} shorter` : ""}`],
    ["Then stale", policy.neverExpires ? "for ever" : policy.staleWhileRevalidate > 0 ? stale : "never served"],
    ["If loads fail", policy.staleIfError > 0 ? `stale for ${seconds(policy.staleIfError)}` : undefined],
    ["Scope", `${words(policy.scope)}${policy.readOnly ? ", read only" : ""}`],
    ["Key", listed(policy.key, "the id of the loader", "the same for all calls")],
    ["Tags", listed(policy.tags, "computed by the loader", "none")],
    ["Invalidated by", listed(policy.tags && invalidatedBy, "what has the tags of the loader", "no mutation by tag")],
    ["Version", policy.version === null ? undefined : visible(policy.version)],
    ["Variant", variant === null ? undefined : visible(variant)],
  ];
}

/** Which fields a mutation reaches, by the tags of the schema. */
function Mutations({ policies }: { readonly policies: Polled<Policies> }) {
  const reached = new Map<string, string[]>();
  for (const { coordinate, invalidatedBy } of policies.data?.policies ?? [])
    for (const mutation of invalidatedBy) reached.set(mutation, [...(reached.get(mutation) ?? []), coordinate]);
  return (
    <Panel
      title="What mutations invalidate"
      id="mutations"
      note="By the rules of the schema: the fields whose tags a mutation can name. Loaders compute their tags, so they are not listed."
    >
      {policies.data === undefined ? (
        <Waiting polled={policies} />
      ) : reached.size === 0 ? (
        <Empty>No mutation of the schema invalidates by tag: none has `@invalidates` or returns tagged entities.</Empty>
      ) : (
        <Facts
          of={[...reached]
            .toSorted(([one], [other]) => (one < other ? -1 : 1))
            .map(([mutation, fields]) => [mutation, visible(fields.join(", "), 2_000)])}
        />
      )}
    </Panel>
  );
}
