import { ago, clock, plural, visible } from "./format.js";
import { Empty, Name, processText } from "./parts.js";
import type { Invalidation, Overview, RecentEvent } from "./types.js";

interface Happening {
  readonly key: string;
  readonly at: string;
  readonly tone: "trouble" | "invalidation" | "change";
  readonly title: string;
  readonly text: string;
  readonly where: string;
}

const CHANGES = new Set(["breaker.closed", "store.recovered"]);

/** What an invalidation concerned. */
export function subjectOf({ isClear, coordinates, nameCount }: Invalidation): string {
  if (isClear) return "everything";
  if (coordinates.length > 0) return `all of ${coordinates.map((one) => visible(one, 80)).join(", ")}`;
  return plural(nameCount, "key or tag", "keys and tags");
}

/** What asked for an invalidation. */
export const causeOf = ({ via, mutation }: Invalidation): string =>
  `${visible(via, 60)}${mutation === null ? "" : ` of ${visible(mutation, 80)}`}`;

/** Returns equal invalidations as one: the newest, with their number and the time of the oldest. */
function ofInvalidations(all: readonly Invalidation[]): readonly Happening[] {
  const equal = new Map<string, Invalidation[]>();
  for (const one of all) {
    const { via, mutation, kind, isConfirmed, process, isClear, coordinates, keys, tags } = one;
    const text = JSON.stringify([via, mutation, kind, isConfirmed, process.id, isClear, coordinates, keys, tags]);
    const others = equal.get(text);
    if (others === undefined) equal.set(text, [one]);
    else others.push(one);
  }
  return [...equal.values()].map((some) => {
    const [newest, oldest] = [some[0] as Invalidation, some.at(-1) as Invalidation];
    const happening = ofInvalidation(newest);
    if (some.length === 1) return happening;
    const times = `${plural(some.length, "time")} since ${clock(oldest.at)}`;
    return { ...happening, text: happening.text === "" ? times : `${happening.text} ${times}` };
  });
}

function ofInvalidation(one: Invalidation): Happening {
  return {
    key: `i ${one.id}`,
    at: one.at,
    tone: "invalidation",
    title: `${one.kind === "SOFT" ? "Softly invalidated" : "Invalidated"} ${subjectOf(one)} by ${causeOf(one)}`,
    text: one.isConfirmed ? "" : "The store has not confirmed it.",
    where: processText(one.process),
  };
}

function ofEvent(one: RecentEvent, nameOf: (id: string) => string): Happening {
  const what = [one.coordinate, one.node, one.detail, one.error].filter((part): part is string => Boolean(part));
  return {
    key: `e ${one.process} ${one.name} ${what.join(" ")}`,
    at: one.at,
    tone: CHANGES.has(one.name) ? "change" : "trouble",
    title: visible(one.name, 80),
    text: `${what.map((part) => visible(part, 160)).join(" · ")}${one.count > 1 ? ` · ${plural(one.count, "time")} since ${clock(one.firstAt)}` : ""}`,
    where: nameOf(one.process),
  };
}

/** Events and invalidations together, the newest first. */
export function happeningsOf(overview: Overview, nameOf: (id: string) => string): readonly Happening[] {
  return [
    ...(overview.events ?? []).map((one) => ofEvent(one, nameOf)),
    ...ofInvalidations(overview.invalidations?.items ?? []),
  ].sort((one, other) => (one.at < other.at ? 1 : one.at > other.at ? -1 : 0));
}

const TONES = { trouble: "Event", invalidation: "Invalidation", change: "Change" } as const;

export function Stream(props: {
  readonly overview: Overview;
  readonly limit: number;
  readonly nameOf: (id: string) => string;
  readonly filter?: string;
}) {
  const wanted = (props.filter ?? "").trim().toLowerCase();
  const all = happeningsOf(props.overview, props.nameOf).filter(
    ({ title, text, where }) => wanted === "" || `${title} ${text} ${where}`.toLowerCase().includes(wanted),
  );
  if (all.length === 0)
    return (
      <Empty>
        {wanted === ""
          ? "Nothing has gone wrong lately, and nothing was invalidated."
          : "Nothing that was reported lately matches."}
      </Empty>
    );
  return (
    <ul class="stream">
      {all.slice(0, props.limit).map((one) => (
        <li key={one.key} class={one.tone}>
          <time dateTime={one.at} title={ago(one.at)}>
            {clock(one.at)}
          </time>
          <div>
            <span class={`badge ${one.tone}`}>{TONES[one.tone]}</span> <Name>{one.title}</Name>{" "}
            <span class="muted">
              <Name>{one.text}</Name>
              {one.text === "" ? "" : " · "}
              <Name>{one.where}</Name>
            </span>
          </div>
        </li>
      ))}
    </ul>
  );
}
