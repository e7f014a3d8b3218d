import { readArguments } from "./arguments.js";
import { CliError } from "./cli-error.js";
import { connect, SOURCE_HELP, SOURCE_OPTIONS } from "./connect.js";
import { inspect, type Section } from "./inspection.js";
import { printable, type Terminal, wrap } from "./terminal.js";

export const WATCH_HELP = `Usage: graphql-cached watch [options]

Prints what happens in the caches of all processes: failures and other events
that are worth a look, and invalidations with what asked for them. It begins
with the last ones and goes on until Ctrl+C.

Options:
  --every <seconds>          how often to ask. Default: 2
  --once                     print what there is, and end
  --json                     print one JSON object per line

${SOURCE_HELP}`;

const SECTIONS: readonly Section[] = [
  {
    name: "events",
    text: "events(first: 50) { process name at firstAt count coordinate digest node detail error }",
    isRequired: false,
  },
  {
    name: "invalidations",
    text: "invalidations(first: 50) { items { at kind via mutation isConfirmed isClear coordinates nameCount process { id host pid } } }",
    isRequired: false,
  },
];

/** An event, or an invalidation, whose name is then `invalidation`. */
interface Happening {
  readonly name: string;
  readonly at: string;
  readonly [property: string]: unknown;
}

/** Runs `graphql-cached watch`. */
export async function watch(argv: readonly string[], terminal: Terminal): Promise<number> {
  const { values, positionals } = readArguments("watch", argv, {
    ...SOURCE_OPTIONS,
    every: { type: "string", default: "2" },
    once: { type: "boolean" },
  });
  if (values.help === true) {
    terminal.print(WATCH_HELP);
    return 0;
  }
  if (positionals.length > 0)
    throw new CliError(`watch: expected options only, got ${printable(positionals[0] ?? "")}`);
  const everyMs = Number(values.every) * 1_000;
  if (!(everyMs >= 100))
    throw new CliError(`watch: --every: expected a number of seconds of at least 0.1, got ${printable(values.every)}`);
  const source = await connect("watch", values, terminal);
  try {
    // What was printed and is still in the answer.
    let seen = new Set<string>();
    let isFirst = true;
    do {
      const { sections, notes } = await inspect(source, SECTIONS, { types: "", values: {} });
      if (isFirst) for (const line of notes.flatMap((note) => wrap(`Note: ${note}`, "", "  "))) terminal.complain(line);
      isFirst = false;
      const happenings = happeningsIn(sections);
      for (const happening of happenings) {
        const text = JSON.stringify(happening);
        if (seen.has(text)) continue;
        for (const line of values.json === true ? [text] : describe(happening)) terminal.print(line);
      }
      seen = new Set(happenings.map((one) => JSON.stringify(one)));
    } while (values.once !== true && (await terminal.sleep(everyMs)));
    return 0;
  } finally {
    await source.close();
  }
}

/** Returns events and invalidations together, the oldest first. */
function happeningsIn(sections: Readonly<Record<string, unknown>>): Happening[] {
  const events = (sections.events ?? []) as readonly Happening[];
  const { items } = (sections.invalidations ?? { items: [] }) as { readonly items: readonly Omit<Happening, "name">[] };
  const invalidations = items.map((one): Happening => ({ name: "invalidation", ...one, at: String(one.at) }));
  return [...events, ...invalidations].sort((one, other) => (one.at < other.at ? -1 : one.at > other.at ? 1 : 0));
}

function describe(happening: Happening): string[] {
  const { at, name } = happening;
  const text = name === "invalidation" ? invalidationText(happening) : eventText(happening);
  return wrap(printable(`${at} ${name} ${text}`.trimEnd()), "", "  ");
}

function eventText({ count, coordinate, node, detail, error, process }: Happening): string {
  const isText = (part: unknown): part is string => typeof part === "string" && part !== "";
  const what = [detail, error].filter(isText).join(": ");
  const times = typeof count === "number" && count > 1 ? `(${count} times)` : undefined;
  return [coordinate, node, what, times, `[${String(process)}]`].filter(isText).join(" ");
}

function invalidationText({
  kind,
  via,
  mutation,
  isConfirmed,
  isClear,
  coordinates,
  nameCount,
  process,
}: Happening): string {
  const names = coordinates as readonly string[];
  const what =
    isClear === true
      ? "everything"
      : names.length > 0
        ? `all of ${names.join(", ")}`
        : `${String(nameCount)} names of keys and tags`;
  const { host, pid } = process as { readonly host: string | null; readonly pid: number | null };
  const where = host === null ? "" : ` [${host}, process ${pid}]`;
  const by = `by ${String(via)}${mutation === null ? "" : ` on ${String(mutation)}`}`;
  return `${String(kind).toLowerCase()}: ${what} ${by}${isConfirmed === false ? ", not confirmed" : ""}${where}`;
}
