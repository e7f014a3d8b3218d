import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, type Polled } from "./api.js";
import { Item } from "./fields.js";
import { ago, bytes, clock, duration, plural, visible, words } from "./format.js";
import { type KeyParts, linkTo, partsInLink, variablesOf } from "./key.js";
import { obstacleOf } from "./obstacle.js";
import { Confirm, Empty, ExportButton, Name, Panel, processText } from "./parts.js";
import { causeOf, subjectOf } from "./stream.js";
import type { Entry, Field, FieldPolicy, Policies, RecentEvent } from "./types.js";

interface Found {
  readonly parts: KeyParts;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly entry: Entry | null | undefined;
  readonly problem: string | undefined;
  readonly at: number;
}

type Wish =
  | { readonly kind: "entry"; readonly variables: Readonly<Record<string, unknown>> }
  | { readonly kind: "all"; readonly coordinate: string }
  | { readonly kind: "tag"; readonly tag: string };

/** Looks up one entry: whether it is served, and if not, why, and who has invalidated it. */
export function EntryView(props: {
  readonly policies: Polled<Policies>;
  readonly fields: readonly Field[] | undefined;
  readonly events: readonly RecentEvent[] | undefined;
  readonly hash: string;
  readonly say: (text: string) => void;
}) {
  const [parts, setParts] = useState<KeyParts>(() => partsInLink(props.hash));
  const [found, setFound] = useState<Found>();
  const [isAsking, setIsAsking] = useState(false);
  const [wish, setWish] = useState<Wish>();
  const fields = props.policies.data?.fields ?? [];
  const field = fields.find(({ coordinate }) => coordinate === parts.coordinate.trim());

  const look = async (wanted: KeyParts): Promise<void> => {
    const read = variablesOf(wanted);
    const base = { parts: wanted, at: Date.now() };
    if ("mistake" in read) {
      setFound({ ...base, variables: {}, entry: undefined, problem: read.mistake });
      return;
    }
    const { variables } = read;
    setIsAsking(true);
    const reply = await ask<{ readonly entry?: Entry | null }>("entry", variables);
    setIsAsking(false);
    const problem = reply.error === undefined ? reply.missing.find(({ section }) => section === "entry") : reply.error;
    const entry = reply.error === undefined ? (reply.data.entry ?? null) : undefined;
    setFound({
      parts: wanted,
      variables,
      entry: problem === undefined ? entry : undefined,
      problem: problem?.message,
      at: Date.now(),
    });
  };
  // A link of another part of the page, or an address that was shared.
  const shownHash = useRef(props.hash);
  useEffect(() => {
    const linked = partsInLink(props.hash);
    if (shownHash.current !== props.hash) {
      shownHash.current = props.hash;
      setParts(linked);
      setFound(undefined);
    }
    const isWhole = linked.args + linked.id + linked.source + linked.context !== "";
    if (linked.coordinate !== "" && isWhole) void look(linked);
  }, [props.hash]);
  const put = (name: keyof KeyParts) => (value: string) => setParts((before) => ({ ...before, [name]: value }));
  const inputs = inputsOf(field, parts.coordinate);
  const counted = props.fields?.find(({ coordinate }) => coordinate === parts.coordinate.trim());
  const obstacle = counted && obstacleOf(counted, props.events);
  return (
    <div class="grid">
      <Panel title="Look up an entry" id="look-up" note="Looking counts as no read and loads nothing.">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            history.replaceState(null, "", linkTo(parts));
            void look(parts);
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
              {fields.map(({ coordinate }) => (
                <option key={coordinate} value={coordinate} />
              ))}
            </datalist>
          </label>
          {inputs.map(({ name, label, hint, example }) => (
            <label class="field" key={name}>
              <span>{label}</span>
              <textarea
                rows={name === "args" ? 2 : 1}
                value={parts[name]}
                spellcheck={false}
                autocomplete="off"
                placeholder={example}
                onInput={(event) => put(name)(event.currentTarget.value)}
                onKeyDown={(event) => {
                  if (event.key === "Enter" && (event.ctrlKey || event.metaKey))
                    event.currentTarget.form?.requestSubmit();
                }}
              />
              <small class="muted">{hint}</small>
            </label>
          ))}
          {parts.coordinate.trim() === "responses" ? (
            <p class="warning">
              Whole responses cannot be looked up one by one: the inspection knows their counts, and who has invalidated
              them.
            </p>
          ) : null}
          <button type="submit" class="primary" disabled={isAsking}>
            {isAsking ? "Looking …" : "Look up"}
          </button>
        </form>
      </Panel>
      <Panel
        title="What the store has"
        id="entry-found"
        actions={
          <ExportButton
            name="entry"
            value={
              found?.entry
                ? { key: found.variables, at: new Date(found.at).toISOString(), entry: found.entry }
                : undefined
            }
          />
        }
      >
        {obstacle === undefined ? null : (
          <p class="warning">
            <Name>{`${parts.coordinate.trim()}: ${obstacle.text}`}</Name>
          </p>
        )}
        <div aria-live="polite">
          {found === undefined ? (
            <Empty>
              Name a field with its arguments, or a loader with an id. A key under <a href="#keys">Hot keys</a> fills in
              the form.
            </Empty>
          ) : found.problem !== undefined ? (
            <p class="warning">
              <Name>{found.problem}</Name>
            </p>
          ) : found.entry === null || found.entry === undefined ? (
            <NotFound found={found} field={field} />
          ) : (
            <Shown
              found={found}
              entry={found.entry}
              mayInvalidate={props.policies.data?.may.invalidate}
              onRefresh={() => void look(found.parts)}
              onWish={setWish}
            />
          )}
        </div>
      </Panel>
      {wish === undefined ? null : (
        <InvalidateDialog
          wish={wish}
          keyText={found === undefined ? "" : keyLine(found.variables)}
          onEnd={(text) => {
            setWish(undefined);
            if (text === undefined) return;
            props.say(text);
            if (found !== undefined) void look(found.parts);
          }}
        />
      )}
    </div>
  );
}

interface Input {
  readonly name: "args" | "source" | "context" | "id" | "private";
  readonly label: string;
  readonly hint: string;
  readonly example: string;
}

/** Returns a part of a key in words. */
const partText = (part: string): string =>
  part === "$args" ? "all arguments" : part === "$source" ? "the parent object" : part;

/** Returns what a key of the field is made of. All of it, if the field is not known. */
function inputsOf(field: FieldPolicy | undefined, coordinate: string): readonly Input[] {
  const policy = field?.policy;
  const key = policy?.key;
  const has = (root: string): boolean => key === undefined || key === null || key.some((part) => part.startsWith(root));
  const isLoader = policy === undefined || policy === null ? !coordinate.includes(".") : key === null;
  const isField =
    policy === undefined || policy === null ? coordinate === "" || coordinate.includes(".") : key !== null;
  const keyHint =
    key === undefined || key === null
      ? ""
      : ` Its key is made of ${visible(key.map(partText).join(", ") || "nothing: it is the same for all calls", 200)}.`;
  const inputs: (Input | false)[] = [
    isField && {
      name: "args",
      label: "Arguments",
      hint: `A JSON object. Defaults of the schema apply.${keyHint}`,
      example: '{"id": 7}',
    },
    isField &&
      key !== undefined &&
      has("$source") && {
        name: "source",
        label: "Parent",
        hint: "Properties of the parent object in the key, as JSON.",
        example: '{"id": 7}',
      },
    isField &&
      key !== undefined &&
      has("$context") && {
        name: "context",
        label: "Context",
        hint: "Properties of the context in the key, as JSON.",
        example: '{"locale": "de"}',
      },
    isLoader && { name: "id", label: "Id", hint: 'JSON: 7 and "7" are two ids. A word needs no quotes.', example: "7" },
    (policy === undefined || policy === null ? false : policy.scope === "PRIVATE") && {
      name: "private",
      label: "Identity",
      hint: "The identity that owns the entry.",
      example: "user-7",
    },
  ];
  return inputs.filter((one): one is Input => one !== false);
}

const keyLine = ({ coordinate, ...others }: Readonly<Record<string, unknown>>): string =>
  visible(
    [
      coordinate,
      ...Object.entries(others).map(([name, value]) =>
        name === "args" || name === "id" ? JSON.stringify(value) : `${name} ${JSON.stringify(value)}`,
      ),
    ].join(" "),
    240,
  );

function NotFound({ found, field }: { readonly found: Found; readonly field: FieldPolicy | undefined }) {
  const key = field?.policy?.key;
  return (
    <>
      <h3 class="entry-title">{keyLine(found.variables)}</h3>
      <p>
        <strong>Not in the store.</strong> It was never loaded, has expired, or was evicted; no invalidation that has
        removed it is remembered. The next request loads it.
      </p>
      <p class="note">
        {key === undefined || key === null
          ? 'Is the id of the right type? For a loader, 7 and "7" are two ids.'
          : `Is the whole key there? It is made of ${visible(key.map(partText).join(", ") || "nothing: it is the same for all calls")}.`}
      </p>
    </>
  );
}

const USES: Readonly<Record<string, readonly [tone: string, text: string]>> = {
  FRESH: ["good", "Fresh. Requests get the stored value."],
  STALE: ["warn", "Stale. Requests get the stored value while it is loaded again."],
  STALE_IF_ERROR: ["warn", "Too old. Requests load it, and get the stored value only if that fails."],
};
const STATES: Readonly<Record<string, readonly [tone: string, text: string]>> = {
  ABSENT: ["plain", "Not in the store. Requests load it."],
  PENDING: ["plain", "Being loaded for the first time. Requests wait for that load."],
  VALUE: ["bad", "Stored, but not served. Requests load it again."],
  FAILED: ["bad", "Its last load failed. Requests get that error until the next load starts."],
  UNCACHEABLE: ["bad", "Its value cannot be stored. Requests load it themselves for a moment."],
};

function stateOf(entry: Entry): readonly [tone: string, text: string] {
  const ofState = STATES[entry.state] ?? ["plain", `${words(entry.state)}.`];
  if (entry.use !== undefined) return USES[entry.use] ?? ofState;
  // A server of an older release, which does not say what a request gets.
  if (entry.state !== "VALUE") return ofState;
  if (entry.outdated) return ["bad", "Stored, but not served: it was invalidated."];
  return entry.stale ? ["warn", "Stale."] : ["good", "Fresh."];
}

function Shown(props: {
  readonly found: Found;
  readonly entry: Entry;
  /** Undefined: not known yet. */
  readonly mayInvalidate: boolean | undefined;
  readonly onRefresh: () => void;
  readonly onWish: (wish: Wish) => void;
}) {
  const { entry, found } = props;
  const [tone, text] = stateOf(entry);
  const isFresh = entry.reason === null || entry.reason === undefined;
  const tags = entry.tags?.static ?? [];
  return (
    <>
      <h3 class="entry-title">{keyLine(found.variables)}</h3>
      <p class={`state ${tone}`}>
        <span class="dot" aria-hidden="true" />
        {text}
      </p>
      {entry.state === "VALUE" ? <Freshness entry={entry} /> : null}
      <dl class="entry-facts">
        {isFresh ? null : (
          <Item name="Why">
            <Name max={1_000}>{entry.explanation ?? words(entry.reason ?? "")}</Name>
          </Item>
        )}
        {entry.invalidation === null || entry.invalidation === undefined ? null : (
          <Item name="Who invalidated it">
            <strong>{causeOf(entry.invalidation)}</strong>
            {` in ${processText(entry.invalidation.process)}, ${ago(entry.invalidation.at)} (${clock(entry.invalidation.at)}): ${subjectOf(entry.invalidation)}, ${words(entry.invalidation.kind)}${entry.invalidation.isConfirmed ? "" : ", not confirmed by the store"}.`}
          </Item>
        )}
        {entry.lease === null || entry.lease === undefined ? (
          entry.leaseForMs === null ? null : (
            <Item name="Lease">{`ends in ${duration(entry.leaseForMs)}`}</Item>
          )
        ) : (
          <Item name="Who holds the lease">
            {`${processText(entry.lease.process)}${entry.lease.since === null ? "" : `, since ${clock(entry.lease.since)}`}; it ends in ${duration(entry.lease.endsInMs)} unless it is renewed. ${
              entry.lease.waiters === null
                ? entry.lease.hasWaiters
                  ? "At least one caller waits for it."
                  : "No caller is known to wait for it."
                : `${plural(entry.lease.waiters, "caller waits", "callers wait")} for it in that process.`
            }`}
          </Item>
        )}
        {entry.state === "VALUE" ? (
          <Item name="Value">
            {`${bytes(entry.valueBytes)}${entry.negative ? ", null or an empty list" : ""}; its load took ${duration(entry.loadMs)}`}
          </Item>
        ) : null}
        <Item name="Tags">
          {tags.length === 0 && (entry.tags?.resultCount ?? 0) === 0 ? "none" : null}
          {tags.length > 0 ? (
            <ul class="tags">
              {tags.map((tag) => (
                <li key={tag}>
                  <Name max={120}>{tag}</Name>
                  {props.mayInvalidate ? (
                    <button
                      type="button"
                      class="tag-action"
                      aria-label={`Invalidate the tag ${visible(tag, 120)}`}
                      title="Invalidate everything with this tag"
                      onClick={() => props.onWish({ kind: "tag", tag })}
                    >
                      ✕
                    </button>
                  ) : null}
                </li>
              ))}
            </ul>
          ) : null}
          {(entry.tags?.resultCount ?? 0) > 0 ? (
            <span class="muted">{`${plural(entry.tags?.resultCount ?? 0, "tag is", "tags are")} derived from the value; their texts are not stored.`}</span>
          ) : null}
        </Item>
        {entry.digest === undefined ? null : (
          <Item name="Name in the store">
            <code>{`${visible(entry.variant ?? "")}:${visible(entry.digest)}`}</code>
          </Item>
        )}
      </dl>
      <div class="entry-actions">
        <button type="button" onClick={props.onRefresh}>
          Look again
        </button>
        {props.mayInvalidate ? (
          <>
            <button
              type="button"
              class="danger"
              onClick={() => props.onWish({ kind: "entry", variables: found.variables })}
            >
              Invalidate …
            </button>
            <button
              type="button"
              class="danger quiet"
              onClick={() => props.onWish({ kind: "all", coordinate: String(found.variables.coordinate) })}
            >
              Invalidate all of it …
            </button>
          </>
        ) : props.mayInvalidate === false ? (
          <span class="note">The option `allowInvalidation` decides who may invalidate.</span>
        ) : null}
      </div>
      <p class="note">As of {clock(found.at)}.</p>
    </>
  );
}

/** The life of a value from its load to when it is not served any more, and where it is in it. */
function Freshness({ entry }: { readonly entry: Entry }) {
  const freshEnd = Math.max(0, entry.ageMs + entry.freshForMs);
  const isServed = entry.use === undefined ? !entry.outdated : entry.use !== "NONE";
  const servableEnd = Math.max(freshEnd, entry.ageMs + Math.max(0, entry.servableForMs ?? 0));
  const end = Math.max(servableEnd, entry.ageMs, 1);
  const share = (ms: number): string => `${Math.min(100, (ms / end) * 100)}%`;
  const staleMs = servableEnd - freshEnd;
  const sentences = [
    `Age ${duration(entry.ageMs)}`,
    !isServed
      ? "not served"
      : entry.freshForMs > 0
        ? `fresh for ${duration(entry.freshForMs)} more`
        : entry.servableForMs === null || entry.servableForMs === undefined
          ? "stale, without an end"
          : `stale, servable for ${duration(entry.servableForMs)} more`,
    ...(isServed && entry.freshForMs > 0 && staleMs > 0 ? [`then stale for up to ${duration(staleMs)}`] : []),
  ];
  return (
    <div class="freshness">
      <div class={isServed ? "life" : "life dead"} aria-hidden="true">
        <span class="life-fresh" style={{ width: share(freshEnd) }} />
        <span class="life-stale" style={{ width: share(staleMs) }} />
        <span class="life-now" style={{ left: share(entry.ageMs) }} />
      </div>
      <p class="life-text">{sentences.join(" · ")}</p>
    </div>
  );
}

function InvalidateDialog(props: {
  readonly wish: Wish;
  readonly keyText: string;
  readonly onEnd: (text?: string) => void;
}) {
  const { wish } = props;
  const [isSoft, setIsSoft] = useState(false);
  const [isBusy, setIsBusy] = useState(false);
  const [what, explained]: readonly [string, ComponentChildren] =
    wish.kind === "entry"
      ? [`the entry ${props.keyText}`, "One entry."]
      : wish.kind === "all"
        ? [
            `all entries of ${visible(wish.coordinate, 120)}`,
            "Every key of it, in all processes. Its source has to bear the loads that follow.",
          ]
        : [`everything with the tag ${visible(wish.tag, 120)}`, "Every entry and response that has this tag."];
  const run = async (): Promise<void> => {
    setIsBusy(true);
    const reply =
      wish.kind === "entry"
        ? await ask("invalidateEntry", { ...wish.variables, soft: isSoft })
        : wish.kind === "all"
          ? await ask("invalidateAll", { coordinate: wish.coordinate, soft: isSoft })
          : await ask("invalidateTags", { tags: [wish.tag], soft: isSoft });
    props.onEnd(
      reply.error === undefined
        ? `${isSoft ? "Softly invalidated" : "Invalidated"} ${what}.`
        : `Not invalidated: ${what}. ${visible(reply.error.message)}`,
    );
  };
  return (
    <Confirm
      title={`Invalidate ${what}?`}
      action="Invalidate"
      isBusy={isBusy}
      onConfirm={() => void run()}
      onCancel={() => props.onEnd()}
    >
      <p>{explained} Requests that start afterwards never get the old value.</p>
      <label class="check">
        <input type="checkbox" checked={isSoft} onChange={(event) => setIsSoft(event.currentTarget.checked)} />
        <span>Softly: serve the old value until it has been loaded again.</span>
      </label>
    </Confirm>
  );
}
