import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Missing, Polled } from "./api.js";
import { sentence, visible } from "./format.js";
import type { Process, ProcessRef } from "./types.js";

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
      <header class="panel-head">
        <h2 id={props.id}>{props.title}</h2>
        {props.actions}
      </header>
      {props.note === undefined ? null : <p class="note">{props.note}</p>}
      {props.children}
    </section>
  );
}

/** Says why a part of the answer is missing. */
export function MissingNote({ missing, of }: { readonly missing: readonly Missing[]; readonly of: string }) {
  const found = missing.find(({ section }) => section === of);
  if (found === undefined) return null;
  return (
    <p class="warning">
      <Name>{sentence(found.message)}</Name>
    </p>
  );
}

/** What stands where an answer will be. */
export const Waiting = ({ polled }: { readonly polled: Pick<Polled<unknown>, "missing" | "error"> }) => (
  <Empty>{polled.error !== undefined || polled.missing.length > 0 ? "There is no answer to show." : "Asking …"}</Empty>
);

export const Empty = ({ children }: { readonly children: ComponentChildren }) => <p class="empty">{children}</p>;

/** A table that scrolls sideways in its own box, which the keyboard can reach. */
export function TableBox({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [isWide, setIsWide] = useState(false);
  useEffect(() => {
    const { current } = box;
    if (current === null) return undefined;
    const measure = (): void => setIsWide(current.scrollWidth > current.clientWidth + 1);
    const observer = new ResizeObserver(measure);
    observer.observe(current);
    measure();
    return () => observer.disconnect();
  }, []);
  return (
    <div
      class="table-box"
      ref={box}
      {...(isWide ? { tabIndex: 0, role: "region", "aria-label": `${label}, scrolls sideways` } : {})}
    >
      {children}
    </div>
  );
}

/** A column of a table: with `sort`, its heading is a button. */
export function Column(props: {
  readonly children: ComponentChildren;
  readonly numeric?: boolean;
  readonly minor?: boolean;
  readonly title?: string;
  readonly sorted?: boolean;
  readonly onSort?: () => void;
}) {
  const classes = `${props.numeric ? "num" : ""} ${props.minor ? "minor" : ""}`.trim();
  return (
    <th scope="col" class={classes} title={props.title} {...(props.sorted ? { "aria-sort": "descending" } : {})}>
      {props.onSort === undefined ? (
        props.children
      ) : (
        <button type="button" class="sort" onClick={props.onSort}>
          {props.children}
          <span aria-hidden="true">{props.sorted ? " ↓" : ""}</span>
        </button>
      )}
    </th>
  );
}

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
    <span class={`meter-fill ${tone}`} style={{ width: `${Math.max(0, Math.min(1, ratio)) * 100}%` }} />
  </span>
);

export const processText = (process: ProcessRef | null | undefined): string =>
  process === null || process === undefined
    ? "an unknown process"
    : process.host
      ? `process ${process.pid ?? "?"} on ${visible(process.host, 60)}`
      : `process ${visible(process.id, 16)}`;

/** Returns a function that names a process by its id. */
export function processNames(processes: readonly Process[] | undefined): (id: string) => string {
  const known = new Map((processes ?? []).map((process) => [process.id, process]));
  return (id) => {
    const process = known.get(id);
    return process === undefined || !process.host ? visible(id, 16) : `${visible(process.host, 40)}:${process.pid}`;
  };
}

/** Asks before something is done. The focus goes back to where it was. */
export function Confirm(props: {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly action: string;
  readonly isBusy: boolean;
  readonly onConfirm: () => void;
  readonly onCancel: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const cancel = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const { current } = dialog;
    const before = document.activeElement;
    current?.showModal();
    cancel.current?.focus();
    return () => {
      current?.close();
      // The browser gives the focus back only while the dialog is in the page.
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby="confirm-title"
      onCancel={(event) => {
        event.preventDefault();
        if (!props.isBusy) props.onCancel();
      }}
    >
      <h2 id="confirm-title">{props.title}</h2>
      {props.children}
      <div class="dialog-actions">
        <button type="button" ref={cancel} onClick={props.onCancel} disabled={props.isBusy}>
          Cancel
        </button>
        <button type="button" class="danger" onClick={props.onConfirm} disabled={props.isBusy}>
          {props.isBusy ? "Working …" : props.action}
        </button>
      </div>
    </dialog>
  );
}

/** Offers a value as a file. */
export function exportJson(name: string, value: unknown): void {
  const url = URL.createObjectURL(new Blob([`${JSON.stringify(value, undefined, 2)}\n`], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `graphql-cached-${name}-${new Date().toISOString().slice(0, 19).replaceAll(":", "-")}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export const ExportButton = ({ name, value }: { readonly name: string; readonly value: unknown }) => (
  <button type="button" class="quiet" disabled={value === undefined} onClick={() => exportJson(name, value)}>
    Export JSON
  </button>
);
