import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ActivityView } from "./activity.js";
import { isDenied, type Problem, usePolled } from "./api.js";
import { ratesOf, type Sample, withSample } from "./chart.js";
import { EntryView } from "./entry.js";
import { FieldsView } from "./fields.js";
import { FleetView, storeTrouble } from "./fleet.js";
import { clock, plural, visible } from "./format.js";
import { KeysView } from "./keys.js";
import { OverviewView } from "./overview.js";
import { ExportButton, Name } from "./parts.js";
import type { Field, Overview, Policies, Store } from "./types.js";

const VIEWS = {
  overview: "Overview",
  fields: "Fields",
  entry: "Entry",
  keys: "Hot keys",
  activity: "Activity",
  fleet: "Store and processes",
} as const;
type View = keyof typeof VIEWS;

const WINDOWS = {
  ONE_MINUTE: "the last minute",
  TEN_MINUTES: "the last ten minutes",
  ONE_HOUR: "the last hour",
  SINCE_START: "since the start",
} as const;
type Window = keyof typeof WINDOWS;

const viewIn = (hash: string): View => {
  const name = hash.slice(1).split("?")[0] ?? "";
  return Object.hasOwn(VIEWS, name) ? (name as View) : "overview";
};

function useHash(): string {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const change = (): void => setHash(location.hash);
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return hash;
}

function App() {
  const hash = useHash();
  const view = viewIn(hash);
  const [window, setWindow] = useState<Window>("TEN_MINUTES");
  const [isOn, setIsOn] = useState(true);
  const [said, setSaid] = useState("");
  const [samples, setSamples] = useState<readonly Sample[]>([]);
  const overview = usePolled<Overview>("overview", { window }, { everyMs: 2_000, isOn });
  const fields = usePolled<{ readonly fields?: readonly Field[] }>("fields", { window }, { everyMs: 4_000, isOn });
  const policies = usePolled<Policies>("policies", {}, { everyMs: 60_000, isOn });
  const store = usePolled<{ readonly store?: Store }>("store", {}, { everyMs: 5_000, isOn });
  const total = overview.data?.total;
  useEffect(() => {
    if (total !== undefined) setSamples((before) => withSample(before, { at: Date.now(), counts: total }));
  }, [total]);
  const isFirst = view === viewIn("");
  useEffect(() => {
    document.title = `${isFirst ? "" : `${VIEWS[view]} · `}graphql-cached inspector`;
  }, [view, isFirst]);

  const problem = overview.error ?? fields.error ?? store.error ?? policies.error;
  if (isDenied(problem) && overview.data === undefined) return <Denied problem={problem as Problem} />;
  // A server of an older release, which has no windows.
  const isSinceStart = overview.data?.stats !== undefined && overview.data.stats.since === undefined;
  const windowText = isSinceStart
    ? WINDOWS.SINCE_START
    : window === "SINCE_START"
      ? WINDOWS[window]
      : `in ${WINDOWS[window]}`;
  const trouble = storeTrouble(store.data?.store);
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the content
      </button>
      <header class="top">
        <div class="top-row">
          <h1>
            graphql-cached <span>inspector</span>
          </h1>
          <p class={problem === undefined ? "status" : "status bad"}>
            <span class={problem !== undefined ? "dot bad" : isOn ? "dot good" : "dot"} aria-hidden="true" />
            {statusText({
              at: overview.at,
              isOn,
              problem,
              processes: overview.data?.processes?.filter(({ isAlive }) => isAlive).length,
            })}
          </p>
          <div class="controls">
            <label>
              <span class="sr-only">Counts of</span>
              <select value={window} onChange={(event) => setWindow(event.currentTarget.value as Window)}>
                {Object.entries(WINDOWS).map(([name, text]) => (
                  <option key={name} value={name}>
                    {text}
                  </option>
                ))}
              </select>
            </label>
            <button type="button" onClick={() => setIsOn(!isOn)}>
              {isOn ? "Pause" : "Resume"}
            </button>
            <ExportButton
              name="inspection"
              value={
                overview.data && {
                  window,
                  overview: overview.data,
                  fields: fields.data?.fields,
                  store: store.data?.store,
                }
              }
            />
          </div>
        </div>
        <nav aria-label="Parts of the inspector">
          {(Object.entries(VIEWS) as [View, string][]).map(([name, text]) => (
            <a key={name} href={`#${name}`} {...(view === name ? { "aria-current": "page" as const } : {})}>
              {text}
            </a>
          ))}
        </nav>
      </header>
      <main id="main" tabIndex={-1}>
        {problem === undefined ? null : (
          <p class="banner bad" role="alert">
            <Name>{problem.message}</Name>
            {overview.at === undefined ? "" : ` What follows is from ${clock(overview.at)}.`}
            {isDenied(problem) ? (
              <button type="button" onClick={() => location.reload()}>
                Reload
              </button>
            ) : null}
          </p>
        )}
        {trouble === undefined ? null : (
          <p class="banner bad" role="alert">
            {trouble} {view === "fleet" ? null : <a href="#fleet">Details</a>}
          </p>
        )}
        <p class={said === "" ? "said empty-said" : "banner said"} role="status">
          {said}
          {said === "" ? null : (
            <button type="button" class="quiet" onClick={() => setSaid("")}>
              Dismiss
            </button>
          )}
        </p>
        {view === "overview" ? (
          <OverviewView overview={overview} fields={fields} rates={ratesOf(samples)} windowText={windowText} />
        ) : view === "fields" ? (
          <FieldsView fields={fields} policies={policies} overview={overview} windowText={windowText} say={setSaid} />
        ) : view === "entry" ? (
          <EntryView
            policies={policies}
            fields={fields.data?.fields}
            events={overview.data?.events}
            hash={hash}
            say={setSaid}
          />
        ) : view === "keys" ? (
          <KeysView overview={overview} windowText={windowText} />
        ) : view === "activity" ? (
          <ActivityView overview={overview} />
        ) : (
          <FleetView overview={overview} store={store} />
        )}
      </main>
    </>
  );
}

function statusText(status: {
  readonly at: number | undefined;
  readonly isOn: boolean;
  readonly problem: Problem | undefined;
  readonly processes: number | undefined;
}): string {
  if (status.at === undefined) return status.problem === undefined ? "Asking …" : "No answer";
  const when = `${status.problem === undefined ? "" : "Last answer "}${clock(status.at)}`;
  const who = status.processes === undefined ? "" : `, ${plural(status.processes, "process", "processes")}`;
  return status.isOn ? `${when}${who}` : `Paused at ${clock(status.at)}${who}`;
}

function Denied({ problem }: { readonly problem: Problem }) {
  return (
    <main class="denied" id="main">
      <h1>
        graphql-cached <span>inspector</span>
      </h1>
      <p class="lead">{visible(problem.message)}</p>
      <p class="muted">
        Sign in with an account that it admits, and reload this page. Nothing of the cache was sent to this browser.
      </p>
      <button type="button" onClick={() => location.reload()}>
        Reload
      </button>
    </main>
  );
}

render(<App />, document.getElementById("app") as HTMLElement);
