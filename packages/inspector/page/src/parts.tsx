import type { ComponentChildren } from "preact";
import type { Polled } from "./api.js";
import { plural, visible } from "./format.js";
import type { Process } from "./types.js";

/** Text of elsewhere: a name, a key, a tag, an error. It is a text node, isolated from the direction of its surroundings. */
export const Name = ({ children, max }: { readonly children: unknown; readonly max?: number }) => (
  <bdi class="name">{visible(children, max)}</bdi>
);

/** A part of the page with a heading. */
export function Panel(props: {
  readonly title: string;
  readonly id: string;
  readonly note?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
  readonly wide?: boolean;
}) {
  return (
    <section class={props.wide ? "panel wide" : "panel"} aria-labelledby={props.id}>
      <header class="row">
        <h2 id={props.id}>{props.title}</h2>
        {props.actions}
      </header>
      {props.note === undefined ? null : <p class="note">{props.note}</p>}
      {props.children}
    </section>
  );
}

/** What stands where an answer will be. */
export const Waiting = ({ polled }: { readonly polled: Polled<unknown> }) => (
  <Empty>{polled.error === undefined ? "Asking …" : "There is no answer to show."}</Empty>
);

export const Empty = ({ children }: { readonly children: ComponentChildren }) => <p class="empty">{children}</p>;

/** A column of a table. With `onSort`, its heading is a button. */
export interface Column {
  readonly text: string;
  readonly isNumeric?: boolean;
  /** Whether a phone goes without it. */
  readonly isMinor?: boolean;
  readonly title?: string;
  readonly isSorted?: boolean;
  readonly onSort?: () => void;
}

/** A table that scrolls sideways in its own box, which the keyboard can reach. */
export const DataTable = (props: {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly children: ComponentChildren;
}) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls needs the focus.
  <section class="table-box" tabIndex={0} aria-label={props.label}>
    <table>
      <caption class="sr-only">{props.label}</caption>
      <thead>
        <tr>
          {props.columns.map(({ text, isNumeric, isMinor, title, isSorted, onSort }) => (
            <th
              scope="col"
              key={text}
              class={`${isNumeric ? "num" : ""} ${isMinor ? "minor" : ""}`}
              title={title}
              aria-sort={isSorted ? "descending" : "none"}
            >
              {onSort === undefined ? (
                text
              ) : (
                <button type="button" class="plain" onClick={onSort}>
                  {text}
                  <span aria-hidden="true">{isSorted ? " ↓" : ""}</span>
                </button>
              )}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{props.children}</tbody>
    </table>
  </section>
);

/** The text that the rows below have to contain. */
export const Filter = (props: {
  readonly value: string;
  readonly example: string;
  readonly onChange: (text: string) => void;
}) => (
  <label>
    Filter{" "}
    <input
      type="search"
      value={props.value}
      placeholder={props.example}
      onInput={(event) => props.onChange(event.currentTarget.value)}
    />
  </label>
);

/** A part of a whole as a bar. The number stands beside it. */
export const Meter = ({ ratio, tone = "hit" }: { readonly ratio: number; readonly tone?: string }) => (
  <span class="meter" aria-hidden="true">
    <span style={{ width: `${Math.max(0, Math.min(1, ratio)) * 100}%`, background: `var(--${tone})` }} />
  </span>
);

/** Facts with their names. Those that are undefined are left out. */
export const Facts = ({ of }: { readonly of: readonly (readonly [name: string, fact: ComponentChildren])[] }) => (
  <dl>
    {of.map(([name, fact]) =>
      fact === undefined ? null : (
        <div class="item" key={name}>
          <dt>
            <Name max={120}>{name}</Name>
          </dt>
          <dd>{fact}</dd>
        </div>
      ),
    )}
  </dl>
);

/** A spot in the colour of what it says. */
export const Dot = ({ tone }: { readonly tone: string }) => (
  <span class="dot" style={{ background: `var(--${tone})` }} aria-hidden="true" />
);

/** The rows with the highest numbers, as bars. */
export const Ranking = (props: {
  readonly rows: readonly { readonly key: string; readonly label: ComponentChildren; readonly value: number }[];
  readonly unit: string;
  readonly tone: string;
  readonly empty: string;
}) => {
  const shown = props.rows.toSorted((one, other) => other.value - one.value).slice(0, 6);
  if (shown.length === 0) return <Empty>{props.empty}</Empty>;
  return (
    <ol class="ranking">
      {shown.map(({ key, label, value }) => (
        <li key={key}>
          <span>{label}</span>
          <Meter ratio={value / (shown[0]?.value ?? 1)} tone={props.tone} />
          <span class="num">{plural(value, props.unit)}</span>
        </li>
      ))}
    </ol>
  );
};

/** Names a process by its id. */
export type NameOf = (id: string | null) => string;

export function processNames(processes: readonly Process[] | undefined): NameOf {
  const known = new Map((processes ?? []).map((process) => [process.id, process]));
  return (id) => {
    if (id === null) return "an unknown process";
    const process = known.get(id);
    return process === undefined ? visible(id, 16) : `${visible(process.host, 40)}:${process.pid}`;
  };
}
