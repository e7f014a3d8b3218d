import { useEffect, useState } from "preact/hooks";
import { ask } from "./api.js";
import { causeOf } from "./events.js";
import { ago, bytes, clock, duration, visible, words } from "./format.js";
import { type KeyParts, linkTo, partsInLink, variablesOf } from "./key.js";
import { Dot, Empty, Facts, Name, type NameOf, Panel } from "./parts.js";
import type { Entry, FieldPolicy, Happening } from "./types.js";

/** What was looked up, and the entry; or what went wrong. */
type Found = { readonly title: string; readonly entry: Entry; readonly at: number } | string;

/** Looks up one entry: whether it is served, and if not, why, and who has invalidated it. */
export function EntryView(props: {
  readonly policies: readonly FieldPolicy[];
  readonly nameOf: NameOf;
  readonly hash: string;
}) {
  const [parts, setParts] = useState<KeyParts>(() => partsInLink(props.hash));
  const [found, setFound] = useState<Found>();
  const look = async (): Promise<void> => {
    const read = variablesOf(parts);
    if ("mistake" in read) return setFound(read.mistake);
    const { data, error } = await ask<{ readonly entry: Entry }>("entry", read.variables);
    setFound(
      data === undefined ? error.message : { title: keyLine(read.variables), entry: data.entry, at: Date.now() },
    );
  };
  // A link of another part of the page, or an address that was shared, may name a whole key.
  useEffect(() => {
    if (parts.coordinate !== "" && parts.args + parts.id + parts.source + parts.context !== "") void look();
  }, []);
  const put = (name: keyof KeyParts) => (value: string) => setParts((before) => ({ ...before, [name]: value }));
  const field = props.policies.find(({ coordinate }) => coordinate === parts.coordinate.trim());
  return (
    <div class="grid">
      <Panel title="Look up an entry" id="look-up" note="Looking counts as no read and loads nothing.">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            history.replaceState(null, "", linkTo(parts));
            void look();
          }}
        >
          <label class="field">
            <span>Field or loader</span>
            <input
              list="coordinates"
              value={parts.coordinate}
              required
              autocomplete="off"
              spellcheck={false}
              placeholder="Query.movie"
              onInput={(event) => put("coordinate")(event.currentTarget.value)}
            />
            <datalist id="coordinates">
              {props.policies.map(({ coordinate }) => (
                <option key={coordinate} value={coordinate} />
              ))}
            </datalist>
          </label>
          {inputsOf(field, parts.coordinate.trim()).map(([, name, label, hint, example]) => (
            <label class="field" key={name}>
              <span>{label}</span>
              <textarea
                rows={name === "args" ? 2 : 1}
                value={parts[name]}
                spellcheck={false}
                autocomplete="off"
                placeholder={example}
                onInput={(event) => put(name)(event.currentTarget.value)}
              />
              <small class="muted">{hint}</small>
            </label>
          ))}
          <button type="submit">Look up</button>
        </form>
      </Panel>
      <Panel title="What the store has" id="entry-found">
        <div aria-live="polite">
          {found === undefined ? (
            <Empty>Name a field with its arguments, or a loader with an id.</Empty>
          ) : typeof found === "string" ? (
            <p class="warning">
              <Name max={600}>{found}</Name>
            </p>
          ) : (
            <>
              <h3 class="state name">{found.title}</h3>
              <Shown entry={found.entry} nameOf={props.nameOf} />
              <p class="note">As of {clock(found.at)}.</p>
            </>
          )}
        </div>
      </Panel>
    </div>
  );
}

/** Returns the inputs for what a key of the field is made of; of an unknown one, what it can be made of. */
function inputsOf(field: FieldPolicy | undefined, coordinate: string) {
  const policy = field?.policy;
  const has = (root: string): boolean => policy?.key?.some((part) => part.startsWith(root)) === true;
  const isLoader = policy === undefined ? !/^$|\./.test(coordinate) : policy.key === null;
  const key =
    policy?.key == null ? "" : ` Its key: ${visible(policy.key.join(", ") || "the same for all calls", 200)}.`;
  const inputs: readonly [boolean, keyof KeyParts, label: string, hint: string, example: string][] = [
    [!isLoader, "args", "Arguments", `A JSON object. Defaults of the schema apply.${key}`, '{"id": 7}'],
    [has("$source"), "source", "Parent", "Properties of the parent object in the key, as JSON.", '{"id": 7}'],
    [has("$context"), "context", "Context", "Properties of the context in the key, as JSON.", '{"locale": "de"}'],
    [isLoader, "id", "Id", 'JSON: 7 and "7" are two ids. A word needs no quotes.', "7"],
    [policy?.scope === "PRIVATE", "private", "Identity", "The identity that owns the entry.", "user-7"],
  ];
  return inputs.filter(([isNeeded]) => isNeeded);
}

const keyLine = ({ coordinate, ...others }: Readonly<Record<string, unknown>>): string =>
  visible([coordinate, ...Object.values(others).map((value) => JSON.stringify(value))].join(" "), 240);

/** What a request gets, or the state of an entry that it does not get. */
const LOOKS: Readonly<Record<string, readonly [tone: string, text: string]>> = {
  FRESH: ["good", "Fresh. Requests get the stored value."],
  STALE: ["stale", "Stale. Requests get the stored value while it is loaded again."],
  STALE_IF_ERROR: ["stale", "Too old. Requests load it, and get the stored value only if that fails."],
  ABSENT: ["bypassed", "Not in the store. The next request loads it."],
  PENDING: ["bypassed", "Being loaded for the first time. Requests wait for that load."],
  VALUE: ["bad", "Stored, but not served. Requests load it again."],
  FAILED: ["bad", "Its last load failed. Requests get that error until the next load starts."],
  UNCACHEABLE: ["bad", "Its value cannot be stored. Requests load it themselves for a moment."],
};

function Shown({ entry, nameOf }: { readonly entry: Entry; readonly nameOf: NameOf }) {
  const [tone, text] = LOOKS[entry.use] ?? LOOKS[entry.state] ?? ["bypassed", `${words(entry.state)}.`];
  const { lease, reasons, tags } = entry;
  return (
    <>
      <p class="state">
        <Dot tone={tone} />
        {text}
      </p>
      <Facts
        of={[
          [
            "Why",
            reasons.length === 0 ? undefined : (
              <ul>
                {reasons.map(({ reason, since, tag, invalidation }) => (
                  <li key={`${reason} ${tag}`}>
                    {`${words(reason)}${tag === null ? "" : `: ${visible(tag, 160)}`}${since === null ? "." : `, ${ago(since)} (${clock(since)}).`}`}
                    {invalidation === null ? null : <Who event={invalidation} nameOf={nameOf} />}
                  </li>
                ))}
              </ul>
            ),
          ],
          ["Age", lifeOf(entry)],
          [
            "Lease",
            lease === null
              ? undefined
              : `${nameOf(lease.process)}${lease.since === null ? "" : `, since ${clock(lease.since)}`}; it ends in ${duration(lease.endsInMs)} unless it is renewed${lease.hasWaiters ? ". Callers wait for it." : "."}`,
          ],
          [
            "Value",
            entry.storedBytes === null
              ? undefined
              : `${bytes(entry.storedBytes)}${entry.negative ? ", null or an empty list" : ""}; its load took ${duration(entry.loadMs)}`,
          ],
          ["Tags", tags.length === 0 ? "none" : <Tags of={tags} />],
          ["Name in the store", <code>{`${visible(entry.variant)}:${visible(entry.digest)}`}</code>],
        ]}
      />
    </>
  );
}

/** When each tag was last invalidated, with a link to the events that name it. */
const Tags = ({ of }: { readonly of: Entry["tags"] }) => (
  <ul>
    {of.map(({ text, digest, invalidatedAt, isSoft }) => (
      <li key={digest} class="row">
        <code>{visible(text ?? `#${digest}`, 160)}</code>
        {invalidatedAt === null ? (
          <span class="muted">not invalidated lately</span>
        ) : (
          <a href={`#activity?filter=${encodeURIComponent(digest)}`}>
            {`${isSoft ? "softly " : ""}invalidated ${ago(invalidatedAt)}`}
          </a>
        )}
      </li>
    ))}
  </ul>
);

/** Who has invalidated an entry, as long as a report knows it. */
const Who = ({ event, nameOf }: { readonly event: Happening; readonly nameOf: NameOf }) => (
  <p>
    By <strong>{event.invalidation && causeOf(event.invalidation)}</strong>
    {` in ${nameOf(event.process)} at ${clock(event.at)}.`}
  </p>
);

/** How old the value of an entry is, and for how long it is still served. */
function lifeOf({ ageMs, freshForMs, servableForMs, use }: Entry): string | undefined {
  if (ageMs === null || freshForMs === null) return undefined;
  const age = `${duration(ageMs)} old`;
  if (use === "NONE") return `${age}, not served`;
  const left = servableForMs === null ? "without an end" : `for ${duration(servableForMs)} more`;
  return freshForMs > 0
    ? `${age}, fresh for ${duration(freshForMs)} more, served ${left}`
    : `${age}, stale, served ${left}`;
}
