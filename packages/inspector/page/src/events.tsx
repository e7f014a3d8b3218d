import { useState } from "preact/hooks";
import type { Polled } from "./api.js";
import { ago, clock, count, duration, plural, visible } from "./format.js";
import { Dot, Empty, Filter, Name, type NameOf, Panel, Waiting } from "./parts.js";
import type { Happening, Invalidation, Overview } from "./types.js";

/** What asked for an invalidation. */
export const causeOf = ({ via, mutation }: Invalidation): string =>
  `${visible(via, 60)}${mutation === null ? "" : ` of ${visible(mutation, 80)}`}`;

/** What an invalidation concerned. */
function subjectOf({ coordinates, invalidation }: Happening): string {
  const { isClear = false, tagCount = 0, entryCount = 0 } = invalidation ?? {};
  if (isClear) return "everything";
  const of = coordinates.map((one) => visible(one, 80)).join(", ");
  const parts = [
    // The tags of a type are among them, so that their number would surprise.
    ...(tagCount > 0 ? ["tags"] : []),
    ...(entryCount > 0 ? [`${plural(entryCount, "entry", "entries")}${of === "" ? "" : ` of ${of}`}`] : []),
  ];
  return parts.join(" and ") || `all of ${of}`;
}

/** Returns a title, and further facts, of what has happened. */
function describe(one: Happening) {
  const { invalidation } = one;
  const times = one.count > 1 ? [`${plural(one.count, "time")}`] : [];
  if (invalidation !== null)
    return {
      tone: "accent",
      title: `${invalidation.kind === "SOFT" ? "Softly invalidated" : "Invalidated"} ${subjectOf(one)} by ${causeOf(invalidation)}`,
      facts: [
        ...invalidation.tags.slice(0, 4).map((digest) => `#${digest}`),
        ...(invalidation.tagCount > 4 ? [`${count(invalidation.tagCount - 4)} more`] : []),
        ...(invalidation.isConfirmed ? [] : ["not confirmed by the store: it is repeated"]),
        `took ${duration(invalidation.tookMs)}`,
        ...times,
      ],
    };
  const facts = [...one.coordinates, one.digest && `#${one.digest}`, one.node, one.detail, one.error];
  return {
    tone: one.name.endsWith(".recovered") ? "bypassed" : "bad",
    title: one.name,
    facts: [...facts.filter((fact): fact is string => Boolean(fact)), ...times],
  };
}

/** What the processes have reported, the newest first. */
export function EventList(props: {
  readonly events: readonly Happening[];
  readonly nameOf: NameOf;
  readonly limit: number;
  readonly filter?: string;
}) {
  const wanted = (props.filter ?? "").trim().toLowerCase();
  const shown = props.events
    .map((event) => ({ event, ...describe(event), where: props.nameOf(event.process) }))
    .filter(
      ({ event: { name }, title, facts, where }) =>
        wanted === "" || [name, title, ...facts, where].join(" ").toLowerCase().includes(wanted),
    );
  if (shown.length === 0)
    return (
      <Empty>
        {wanted === ""
          ? "Nothing was invalidated, and nothing has gone wrong, as far as the reports go back."
          : "Nothing in the reports matches."}
      </Empty>
    );
  return (
    <ul class="stream">
      {shown.slice(0, props.limit).map(({ event, tone, title, facts, where }, nth) => (
        <li key={`${event.process} ${event.name} ${event.at} ${nth}`}>
          <time dateTime={event.at} title={ago(event.at)}>
            {clock(event.at)}
          </time>
          <Dot tone={tone} />
          <div>
            <Name>{title}</Name>
            <p class="muted">
              <Name max={800}>{[...facts, where].join(" · ")}</Name>
            </p>
          </div>
        </li>
      ))}
    </ul>
  );
}

/** Who has invalidated what, and when, and what has gone wrong. */
export function ActivityView(props: {
  readonly overview: Polled<Overview>;
  readonly nameOf: NameOf;
  readonly filter: string;
}) {
  const [filter, setFilter] = useState(props.filter);
  const { data } = props.overview;
  return (
    <Panel
      title="Invalidations and trouble"
      id="activity"
      note="The last 100 events of each process, the newest first. A # is the digest of a tag or key, which the explorer shows as well."
    >
      <div class="row">
        <Filter value={filter} example="@invalidates" onChange={setFilter} />
      </div>
      {data === undefined ? (
        <Waiting polled={props.overview} />
      ) : (
        <EventList events={data.events} nameOf={props.nameOf} limit={300} filter={filter} />
      )}
    </Panel>
  );
}
