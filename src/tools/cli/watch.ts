import type { CacheProcess } from "../../generated/schema.js";
import { readNumber, serverCommand } from "./command.js";
import { type Inspected, type InspectedSection, inspect } from "./inspection.js";
import { CliError, jsonText, noteLines, printable, wrap } from "./terminal.js";

const HELP = `Usage: graphql-cached watch [options]

Prints what happens in the caches of all processes: failures and other events
that are worth a look, and invalidations with what asked for them. It begins
with the last ones and goes on until Ctrl+C.

Options:
  --every <seconds>          how often to ask. Default: 2
  --once                     print what there is, and end
  --json                     print one JSON object per line`;

const MAX_INVALIDATIONS = 500;
/** How many of those that were printed are remembered. */
const MAX_PRINTED = 20 * MAX_INVALIDATIONS;

const SECTIONS: readonly InspectedSection[] = [
  ["events", "(first: 100) { process name at firstAt count coordinate digest node detail error }"],
  [
    "invalidations",
    `(first: ${MAX_INVALIDATIONS}) { items { id at kind via mutation isConfirmed isClear coordinates nameCount process { id host pid } } }`,
  ],
  ["processes", " { id host pid }"],
].map(([name = "", text = ""]) => ({ name, text: name + text, isOptional: true }));

/**
 * How far apart two answers may place the same event. Servers convert the clock of each process to their own, so the
 * milliseconds vary.
 */
const SAME_TIME_MS = 100;

const MISSING = `there were ${MAX_INVALIDATIONS} invalidations or more since the last answer; earlier ones of them are not shown; ask more often, with --every`;

/** The name of an invalidation; others have the name of an event. */
const INVALIDATION = "invalidation";

interface Happening {
  readonly name: string;
  readonly at: string;
  readonly [property: string]: unknown;
}

type Process = Pick<CacheProcess, "id" | "host" | "pid">;

const OPTIONS = { every: { type: "string", default: "2" }, once: { type: "boolean" } } as const;

export const watch = serverCommand("watch", HELP, OPTIONS, async ({ values, positionals, terminal, connect }) => {
  if (positionals.length > 0)
    throw new CliError(`watch: expected options only, got ${printable(positionals[0] ?? "")}`);
  const everyMs = readNumber("watch", "--every", values.every, { from: 0.1, to: 10_000, unit: "seconds" }) * 1_000;
  const source = await connect();
  const printed = new Printed();
  /** What could not be asked in the last answer. Undefined before the first. */
  let known: readonly string[] | undefined;
  /** Whether invalidations have been listed before: if all of an answer are new, some in between may be missing. */
  let hasListed = false;
  do {
    const { sections, notes } = await inspect(source, SECTIONS).catch((error: unknown): Inspected => {
      // A server that has answered once is asked again, for example after it was restarted.
      if (known === undefined || !(error instanceof CliError)) throw error;
      return { sections: {}, notes: [error.message] };
    });
    const unsaid = notes.filter((note) => known?.includes(note) !== true);
    known = notes;
    const processes = (sections.processes ?? []) as readonly Process[];
    const happenings = printed.newIn(happeningsIn(sections));
    if (hasListed && happenings.filter(isInvalidation).length === MAX_INVALIDATIONS) unsaid.push(MISSING);
    for (const line of noteLines(unsaid)) terminal.complain(line);
    hasListed ||= Boolean(sections.invalidations);
    for (const happening of happenings) {
      const lines = values.json === true ? [jsonText(happening)] : describe(happening, processes);
      for (const line of lines) terminal.print(line);
    }
  } while (values.once !== true && (await terminal.sleep(everyMs)));
});

/** What was printed, so that nothing is printed twice. */
class Printed {
  /** The last report of each event. Several servers can answer in turn, some of them with an older report. */
  readonly #events = new Map<string, Happening>();
  /** The ids of invalidations, oldest first. */
  readonly #invalidations = new Set<unknown>();

  /** Returns those of an answer that were not printed yet; they count as printed from now on. */
  newIn(happenings: readonly Happening[]): Happening[] {
    const fresh = happenings.filter((one) =>
      isInvalidation(one) ? !this.#invalidations.has(one.id) : this.#isNewEvent(one),
    );
    for (const { id } of fresh.filter(isInvalidation)) this.#invalidations.add(id);
    for (const id of this.#invalidations) {
      if (this.#invalidations.size <= MAX_PRINTED) break;
      this.#invalidations.delete(id);
    }
    return fresh;
  }

  #isNewEvent(event: Happening): boolean {
    const { at: _, firstAt: __, count, digest: ___, ...identity } = event;
    const text = JSON.stringify(identity);
    const last = this.#events.get(text);
    const isNew =
      last === undefined || timeOf(event) > timeOf(last) + SAME_TIME_MS || Number(count) > Number(last.count);
    if (isNew) this.#events.set(text, event);
    return isNew;
  }
}

const isInvalidation = ({ name }: Happening): boolean => name === INVALIDATION;
const timeOf = ({ at }: Happening): number => Date.parse(at);

/** Returns events and invalidations together, the oldest first. */
function happeningsIn(sections: Readonly<Record<string, unknown>>): Happening[] {
  const events = (sections.events ?? []) as readonly Happening[];
  const { items } = (sections.invalidations ?? { items: [] }) as { readonly items: readonly Omit<Happening, "name">[] };
  const invalidations = items.map((one): Happening => ({ name: INVALIDATION, ...one, at: String(one.at) }));
  // Both lists begin with the newest. Those of one millisecond keep their order.
  return [...events, ...invalidations]
    .reverse()
    .sort((one, other) => (one.at < other.at ? -1 : one.at > other.at ? 1 : 0));
}

function describe(happening: Happening, processes: readonly Process[]): string[] {
  const text = isInvalidation(happening) ? invalidationText(happening) : eventText(happening, processes);
  return wrap(printable(`${happening.at} ${happening.name} ${text}`.trimEnd()), "", "  ");
}

function eventText(event: Happening, processes: readonly Process[]): string {
  const { count, coordinate, node, detail, error, process } = event;
  const isText = (part: unknown): part is string => typeof part === "string" && part !== "";
  const what = [detail, error].filter(isText).join(": ");
  const times = typeof count === "number" && count > 1 ? `(${count} times)` : undefined;
  const where = processes.find(({ id, host }) => id === process && host !== "");
  const by = where === undefined ? `[${String(process)}]` : `[${where.host}, process ${where.pid}]`;
  return [coordinate, node, what, times, by].filter(isText).join(" ");
}

function invalidationText(happening: Happening): string {
  const { kind, via, mutation, isConfirmed, isClear, nameCount } = happening;
  const coordinates = happening.coordinates as readonly string[];
  const names = coordinates.length > 0 ? `all of ${coordinates.join(", ")}` : undefined;
  const count = nameCount === 1 ? "1 key or tag" : `${String(nameCount)} keys and tags`;
  const what = isClear === true ? "everything" : (names ?? count);
  const { host, pid } = happening.process as { readonly host: string | null; readonly pid: number | null };
  const where = host === null ? "" : ` [${host}, process ${pid}]`;
  const by = `by ${String(via)}${mutation === null ? "" : ` on ${String(mutation)}`}`;
  return `${String(kind).toLowerCase()}: ${what} ${by}${isConfirmed === false ? ", not confirmed" : ""}${where}`;
}
