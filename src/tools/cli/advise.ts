import { readArguments, readNumber } from "./arguments.js";
import { CliError } from "./cli-error.js";
import { connect, SOURCE_HELP, SOURCE_OPTIONS } from "./connect.js";
import { inspect } from "./inspection.js";
import { jsonText, printable, type Terminal, wrap } from "./terminal.js";

export const ADVISE_HELP = `Usage: graphql-cached advise [<coordinate>...] [options]

Proposes how long the values of fields and loaders are served, by what was
measured: the lines to change, what they save, and how many reads would be
outdated. Needs the option sampling of createCache, or the mode observe.

Options:
  --max-stale <percent>      the share of reads that may be outdated. Default: 5
  --all                      show why there is no advice for the others as well
  --json                     print the advice as JSON

${SOURCE_HELP}`;

interface Lifetimes {
  readonly loadsPerSecond: number;
  readonly staleRatio: number | null;
  readonly maxStaleRatio: number | null;
}

/** The advice for one field or loader. */
interface Advice {
  readonly coordinate: string;
  readonly kind: string;
  readonly reason: string;
  readonly diff: string | null;
  readonly current: Lifetimes;
  readonly proposed: Lifetimes | null;
  readonly saving: { readonly loadsPerSecond: number; readonly loadMsPerSecond: number } | null;
}

/** What a server of this release or a later one is asked for. */
const ADVICE = `advice(maxStaleRatio: $maxStaleRatio) {
  coordinate kind reason diff comparisons changesPerHour maxChangesPerHour
  current { maxAge staleWhileRevalidate loadsPerSecond staleRatio maxStaleRatio }
  proposed { maxAge staleWhileRevalidate loadsPerSecond staleRatio maxStaleRatio }
  saving { loadsPerSecond loadMsPerSecond }
}`;

/** Runs `graphql-cached advise`. */
export async function advise(argv: readonly string[], terminal: Terminal): Promise<number> {
  const { values, positionals } = readArguments("advise", argv, {
    ...SOURCE_OPTIONS,
    "max-stale": { type: "string", default: "5" },
    all: { type: "boolean" },
  });
  if (values.help === true) {
    terminal.print(ADVISE_HELP);
    return 0;
  }
  const percents = { from: 0.1, to: 99, unit: "percent" };
  const maxStaleRatio = readNumber("advise", "--max-stale", values["max-stale"], percents) / 100;
  const source = await connect("advise", values, terminal);
  try {
    if (!source.hasSchema)
      throw new CliError("advise: expected an endpoint: a Redis server does not know the policies; pass --endpoint");
    const { sections, notes } = await inspect(source, [{ name: "advice", text: ADVICE, isRequired: true }], {
      types: "$maxStaleRatio: Float!",
      values: { maxStaleRatio },
    });
    const found = chosen(sections.advice as readonly Advice[], positionals);
    if (values.json === true) terminal.print(jsonText({ advice: found, notes }, 2));
    else
      for (const line of [
        ...pageOf(found, values.all === true || positionals.length > 0),
        ...notes.flatMap((note) => wrap(`Note: ${note}`, "", "  ")),
      ])
        terminal.print(line);
    return 0;
  } finally {
    await source.close();
  }
}

function chosen(known: readonly Advice[], coordinates: readonly string[]): readonly Advice[] {
  const names = known.map(({ coordinate }) => coordinate);
  for (const coordinate of coordinates)
    if (!names.includes(coordinate))
      throw new CliError(
        `advise: expected a cached field or a loader, got ${printable(coordinate)}; known are ${printable(names.join(", ")) || "none"}`,
      );
  return coordinates.length === 0 ? known : known.filter(({ coordinate }) => coordinates.includes(coordinate));
}

/** What saves most comes first. */
function pageOf(advice: readonly Advice[], isAll: boolean): string[] {
  const savedBy = ({ saving }: Advice): number => saving?.loadsPerSecond ?? 0;
  const proposals = advice
    .filter(({ kind }) => kind !== "NONE")
    .toSorted((one, other) => savedBy(other) - savedBy(one));
  const others = advice.filter(({ kind }) => kind === "NONE");
  const lines = [...proposals, ...(isAll ? others : [])].flatMap(describe);
  if (isAll || others.length === 0) return advice.length === 0 ? ["No cached fields or loaders."] : lines;
  const rest = proposals.length === 0 ? "fields and loaders" : others.length === 1 ? "other" : "others";
  return [...lines, `No advice for ${others.length} ${rest}; --all shows why.`];
}

function describe({ coordinate, reason, diff, current, proposed, saving }: Advice): string[] {
  const row = (name: string, text: string): string[] => wrap(printable(text), `  ${name.padEnd(10)}`, " ".repeat(12));
  const lines = [printable(coordinate), ...row("why", reason)];
  if (proposed === null || saving === null) return lines;
  const { loadMsPerSecond } = saving;
  const [what, sign] = loadMsPerSecond < 0 ? ["costs", -1] : ["saves", 1];
  const loads = `${rate(current.loadsPerSecond)}, then ${rate(proposed.loadsPerSecond)}`;
  const now = current.staleRatio === null ? "unknown" : `${share(current.staleRatio)} of the reads`;
  lines.push(
    ...row("loads", `${loads}; ${what} ${time(sign * loadMsPerSecond)} of load time`),
    ...row("outdated", `${now}, then ${share(proposed.staleRatio)}, at most ${share(proposed.maxStaleRatio)}`),
  );
  for (const line of (diff ?? "").split("\n")) if (line !== "") lines.push(`    ${printable(line)}`);
  return lines;
}

const short = (number: number): string => String(number >= 100 ? Math.round(number) : Number(number.toPrecision(2)));
const rate = (perSecond: number): string =>
  perSecond >= 1 ? `${short(perSecond)} a second` : `${short(3600 * perSecond)} an hour`;
const time = (msPerSecond: number): string =>
  msPerSecond >= 1 ? `${short(msPerSecond)} ms a second` : `${short(3.6 * msPerSecond)} s an hour`;
const share = (ratio: number | null): string => `${short(100 * (ratio ?? 0))} %`;
