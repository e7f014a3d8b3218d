import { Fragment } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Polled } from "./api.js";
import { bytes, count, duration, percent, plural, seconds, visible, words } from "./format.js";
import { linkTo, NO_KEY } from "./key.js";
import { callsPastCache, obstacleOf } from "./obstacle.js";
import { Column, Empty, ExportButton, Filter, Meter, MissingNote, Name, Panel, TableBox, Waiting } from "./parts.js";
import type { Field, FieldPolicy, Overview, Policies, Policy, RecentEvent } from "./types.js";

const PAGE = 100;

const staleShare = ({ stats }: Field): number | undefined =>
  stats.reads === 0 ? undefined : (stats.stale + stats.staleIfError) / stats.reads;

const hitRatio = ({ stats }: Pick<Field, "stats">): number | undefined =>
  stats.hitRatio ?? (stats.reads === 0 ? undefined : (stats.hit + stats.stale + stats.staleIfError) / stats.reads);

const ORDERS = {
  coordinate: (one: Field) => one.coordinate,
  reads: ({ stats }: Field) => stats.reads,
  hit: (field: Field) => 1 - (hitRatio(field) ?? 2),
  stale: (field: Field) => staleShare(field) ?? -1,
  loads: ({ stats }: Field) => stats.loads,
  saved: ({ stats }: Field) => stats.loadsSaved ?? -1,
  time: ({ stats }: Field) => stats.loadMs?.p90Ms ?? -1,
  failed: ({ stats }: Field) => stats.failedLoads,
} as const;
type Order = keyof typeof ORDERS;

function sorted(fields: readonly Field[], order: Order): readonly Field[] {
  const rank = ORDERS[order];
  return fields.toSorted((one, other) => {
    const [a, b] = [rank(one), rank(other)];
    if (typeof a === "string" || typeof b === "string") return String(a) < String(b) ? -1 : 1;
    return b - a || (one.coordinate < other.coordinate ? -1 : 1);
  });
}

/** Fields, responses and loaders: what their policies achieve. */
export function FieldsView(props: {
  readonly fields: Polled<{ readonly fields?: readonly Field[] }>;
  readonly policies: Polled<Policies>;
  readonly overview: Polled<Overview>;
  readonly windowText: string;
  readonly say: (text: string) => void;
}) {
  const [order, setOrder] = useState<Order>("loads");
  const [filter, setFilter] = useState("");
  const [limit, setLimit] = useState(PAGE);
  const [open, setOpen] = useState<string>();
  const all = props.fields.data?.fields;
  const policies = useMemo(
    () => new Map((props.policies.data?.fields ?? []).map((one) => [one.coordinate, one])),
    [props.policies.data],
  );
  const wanted = filter.trim().toLowerCase();
  const shown = useMemo(
    () =>
      sorted(
        (all ?? []).filter(({ coordinate }) => coordinate.toLowerCase().includes(wanted)),
        order,
      ),
    [all, wanted, order],
  );
  const column = (name: Order, text: string, title: string, isMinor = false) => (
    <Column
      numeric={name !== "coordinate"}
      minor={isMinor}
      title={title}
      sorted={order === name}
      onSort={() => setOrder(name)}
    >
      {text}
    </Column>
  );
  return (
    <Panel
      title="Fields, responses and loaders"
      id="fields-title"
      wide
      actions={
        <ExportButton
          name="fields"
          value={all && { window: props.windowText, fields: all, policies: props.policies.data?.fields }}
        />
      }
    >
      <div class="toolbar">
        <Filter value={filter} example="Query.movie" onChange={setFilter} />
        <span class="muted">
          {all === undefined
            ? ""
            : `${plural(shown.length, "row")}${shown.length === all.length ? "" : ` of ${count(all.length)}`}, ${props.windowText}`}
        </span>
      </div>
      <MissingNote missing={props.fields.missing} of="fields" />
      {all === undefined ? (
        <Waiting polled={props.fields} />
      ) : all.length === 0 ? (
        <Empty>Nothing is cached yet: no field has `@cached`, and no loader was created.</Empty>
      ) : (
        <TableBox label="Fields, responses and loaders">
          <table class="data fields">
            <caption class="sr-only">Fields, responses and loaders, {props.windowText}. The headings sort.</caption>
            <thead>
              <tr>
                {column("coordinate", "Name", "Sort by name")}
                <Column minor>Policy</Column>
                {column("reads", "Reads", "Sort by reads")}
                {column("hit", "Hit ratio", "Sort by hit ratio, the worst first")}
                {column("stale", "Stale", "Share of reads that were served stale", true)}
                {column("loads", "Loads", "Loads that ran, refreshes included")}
                {column("saved", "Saved", "Loads that the cache has saved", true)}
                {column("time", "Load p90", "90 % of the loads took at most this", true)}
                {column("failed", "Failed", "Loads that failed", true)}
              </tr>
            </thead>
            <tbody>
              {shown.slice(0, limit).map((field) => (
                <Fragment key={field.coordinate}>
                  <Row
                    field={field}
                    policy={policies.get(field.coordinate)}
                    events={props.overview.data?.events}
                    isOpen={open === field.coordinate}
                    onToggle={() => setOpen(open === field.coordinate ? undefined : field.coordinate)}
                  />
                  {open === field.coordinate ? (
                    <tr class="details">
                      <td colSpan={9}>
                        <Details field={field} policy={policies.get(field.coordinate)} />
                      </td>
                    </tr>
                  ) : null}
                </Fragment>
              ))}
            </tbody>
          </table>
          {shown.length === 0 ? <Empty>No name contains this text.</Empty> : null}
        </TableBox>
      )}
      {shown.length > limit ? (
        <button type="button" onClick={() => setLimit(limit + PAGE)}>
          Show {Math.min(PAGE, shown.length - limit)} more of {count(shown.length - limit)}
        </button>
      ) : null}
    </Panel>
  );
}

function policyText(field: Field, policy: Policy | null | undefined): string {
  if (policy === null || policy === undefined)
    return field.maxAge === null || field.maxAge === undefined ? "of other processes" : seconds(field.maxAge);
  return [
    policy.neverExpires ? `${seconds(policy.maxAge)}, never expires` : seconds(policy.maxAge),
    ...(policy.staleWhileRevalidate > 0 ? [`+${seconds(policy.staleWhileRevalidate)} stale`] : []),
    ...(policy.scope === "PRIVATE" ? ["private"] : []),
  ].join(", ");
}

function Row(props: {
  readonly field: Field;
  readonly policy: FieldPolicy | undefined;
  readonly events: readonly RecentEvent[] | undefined;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}) {
  const { field } = props;
  const { stats } = field;
  const ratio = hitRatio(field);
  const obstacle = obstacleOf(field, props.events);
  const openBreakers = (props.policy?.breaker ?? []).filter(({ state }) => state !== "CLOSED").length;
  return (
    <tr>
      <th scope="row">
        <button type="button" class="row-toggle" aria-expanded={props.isOpen} onClick={props.onToggle}>
          <span aria-hidden="true" class="arrow">
            {props.isOpen ? "▾" : "▸"}
          </span>
          <Name max={120}>{field.coordinate}</Name>
        </button>
        {openBreakers > 0 ? <span class="badge trouble">breaker open</span> : null}
        {obstacle === undefined ? null : (
          <span class="badge trouble" title={obstacle.text}>
            <Name max={60}>{obstacle.name}</Name>
          </span>
        )}
      </th>
      <td class="minor muted">{policyText(field, props.policy?.policy)}</td>
      <td class="num">{count(stats.reads)}</td>
      <td class="num">
        {ratio === undefined ? null : <Meter ratio={ratio} />}
        <span class="ratio">{percent(ratio)}</span>
      </td>
      <td class="num minor">{percent(staleShare(field))}</td>
      <td class="num">{count(stats.loads)}</td>
      <td class="num minor">{count(stats.loadsSaved)}</td>
      <td class="num minor">{duration(stats.loadMs?.p90Ms)}</td>
      <td class={stats.failedLoads > 0 ? "num minor bad" : "num minor"}>{count(stats.failedLoads)}</td>
    </tr>
  );
}

function Details({ field, policy }: { readonly field: Field; readonly policy: FieldPolicy | undefined }) {
  const { stats } = field;
  const settings = policy?.policy;
  return (
    <div class="details-grid">
      <dl>
        <Item name="Reads">
          {`${count(stats.hit)} hit, ${count(stats.coalesced)} coalesced, ${count(stats.stale)} stale, ${count(stats.staleIfError)} stale because the load failed, ${count(stats.loaded)} loaded, ${count(stats.bypassed)} bypassed`}
        </Item>
        {(field.bypasses ?? []).length === 0 ? null : (
          <Item name="Bypassed">
            {field.bypasses?.map(({ reason, reads }) => `${words(reason)} ${count(reads)}`).join(", ")}
          </Item>
        )}
        <Item name="Loads">
          {`${count(stats.loads)} ran, ${count(stats.failedLoads)} failed, ${count(stats.refusedStores)} outdated before they were stored${callsPastCache(field) > 0 ? `; ${plural(callsPastCache(field), "read has", "reads have")} called the source past the cache` : ""}`}
        </Item>
        {stats.loadMs === undefined ? null : (
          <Item name="Load time">{`p50 ${duration(stats.loadMs.p50Ms)}, p90 ${duration(stats.loadMs.p90Ms)}, p99 ${duration(stats.loadMs.p99Ms)}`}</Item>
        )}
        {stats.waitMs === undefined || stats.waitMs.count === 0 ? null : (
          <Item name="Waited">{`${plural(stats.waitMs.count, "read")}, p50 ${duration(stats.waitMs.p50Ms)}, p99 ${duration(stats.waitMs.p99Ms)}`}</Item>
        )}
        <Item name="Stored">{bytes(stats.storedBytes)}</Item>
      </dl>
      <dl>
        {settings === null || settings === undefined ? (
          <Item name="Policy">The process that answers does not have it.</Item>
        ) : (
          <>
            <Item name="Fresh for">{`${seconds(settings.maxAge)}${settings.jitter > 0 ? `, up to ${percent(settings.jitter)} shorter` : ""}`}</Item>
            <Item name="Then stale">
              {settings.neverExpires
                ? "for ever, while it is refreshed"
                : settings.staleWhileRevalidate > 0
                  ? `${seconds(settings.staleWhileRevalidate)}, refreshed in the ${words(settings.refresh)}`
                  : "never served"}
            </Item>
            {settings.staleIfError > 0 ? (
              <Item name="If loads fail">{`stale for ${seconds(settings.staleIfError)}`}</Item>
            ) : null}
            <Item name="Scope">{words(settings.scope)}</Item>
            <Item name="Key">
              {settings.key === null ? (
                "the id of the loader"
              ) : settings.key.length === 0 ? (
                "the same for all calls"
              ) : (
                <Name>{settings.key.join(", ")}</Name>
              )}
            </Item>
            {settings.tags === null || settings.tags.length === 0 ? null : (
              <Item name="Tags">
                <Name>{settings.tags.join(", ")}</Name>
              </Item>
            )}
          </>
        )}
        {policy?.variant == null ? null : (
          <Item name="Variant">
            <code>{visible(policy.variant)}</code>
          </Item>
        )}
        {(policy?.breaker ?? []).some(({ state }) => state !== "CLOSED") ? (
          <Item name="Breaker">
            {policy?.breaker
              ?.filter(({ state }) => state !== "CLOSED")
              .map(({ state, process }) => `${words(state)} in ${visible(process, 16)}`)
              .join(", ")}
          </Item>
        ) : null}
      </dl>
      {field.coordinate === "responses" ? null : (
        <a class="button" href={linkTo({ ...NO_KEY, coordinate: field.coordinate })}>
          Look up an entry
        </a>
      )}
    </div>
  );
}

export const Item = ({ name, children }: { readonly name: string; readonly children: preact.ComponentChildren }) => (
  <div class="item">
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);
