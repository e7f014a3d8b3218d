import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { isDenied, usePolled } from "./api.js";
import { WINDOWS, type Window } from "./counts.js";
import { EntryView } from "./entry.js";
import { ActivityView } from "./events.js";
import { FieldsView } from "./fields.js";
import { clock, plural, visible } from "./format.js";
import { inHash } from "./key.js";
import { OverviewView } from "./overview.js";
import { Dot, Name, processNames } from "./parts.js";
import { ProcessesView } from "./processes.js";
import type { Overview, Policies } from "./types.js";

const VIEWS = {
  overview: "Overview",
  fields: "Fields",
  entry: "Entry",
  activity: "Activity",
  processes: "Processes",
} as const;
type View = keyof typeof VIEWS;

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
  const [window, setWindow] = useState<Window>("minutes");
  const [isOn, setIsOn] = useState(true);
  const overview = usePolled<Overview>("overview", 3_000, isOn);
  const policies = usePolled<Policies>("policies", 60_000, isOn);
  const { data } = overview;
  useEffect(() => {
    document.title = `${view === "overview" ? "" : `${VIEWS[view]} · `}graphql-cached inspector`;
  }, [view]);
  const problem = overview.error ?? policies.error;
  if (problem !== undefined && isDenied(problem) && data === undefined)
    return (
      <main id="main">
        <h1>graphql-cached inspector</h1>
        <p>{visible(problem.message)}</p>
        <p class="muted">Sign in with an account that it admits. Nothing of the cache was sent to this browser.</p>
        <button type="button" onClick={() => location.reload()}>
          Reload
        </button>
      </main>
    );
  const nameOf = processNames(data?.processes);
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the content
      </button>
      <header class="top">
        <div class="row">
          <h1>
            graphql-cached <span>inspector</span>
          </h1>
          <p class={problem === undefined ? "status" : "status bad"}>
            <Dot tone={problem !== undefined ? "bad" : isOn ? "good" : "bypassed"} />
            {overview.at === undefined
              ? problem === undefined
                ? "Asking …"
                : "No answer"
              : `${isOn ? (problem === undefined ? "" : "Last answer ") : "Paused at "}${clock(overview.at)}, ${plural(data?.processes.length ?? 0, "process", "processes")}`}
          </p>
          <div class="row controls">
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
        {[problem?.message, data?.missing].map((text) =>
          text == null ? null : (
            <p class="warning" role="alert" key={text}>
              <Name max={600}>{text}</Name>
              {overview.at === undefined ? "" : ` What follows is from ${clock(overview.at)}.`}
            </p>
          ),
        )}
        {view === "overview" ? (
          <OverviewView overview={overview} window={window} nameOf={nameOf} />
        ) : view === "fields" ? (
          <FieldsView overview={overview} policies={policies} window={window} />
        ) : view === "entry" ? (
          <EntryView key={hash} policies={policies.data?.policies ?? []} nameOf={nameOf} hash={hash} />
        ) : view === "activity" ? (
          <ActivityView key={hash} overview={overview} nameOf={nameOf} filter={inHash(hash, "filter")} />
        ) : (
          <ProcessesView overview={overview} />
        )}
      </main>
    </>
  );
}

render(<App />, document.getElementById("app") as HTMLElement);
