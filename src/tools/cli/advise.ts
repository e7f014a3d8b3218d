import type { CacheAdvice } from "../../generated/schema.js";
import { readNumber, serverCommand, show } from "./command.js";
import { chosen, inspect } from "./inspection.js";
import { CliError, printable, wrapRows } from "./terminal.js";

const HELP = `Usage: graphql-cached advise [<coordinate>...] [options]

Proposes how long the values of fields and loaders are served, by what was
measured: the lines to change, what they save, and how many reads would be
outdated. Needs the option sampling of createCache, or the mode observe.

Options:
  --max-stale <percent>      the share of reads that may be outdated. Default: 5
  --all                      show why there is no advice for the others as well
  --json                     print the advice as JSON`;

const LIFETIMES = "{ maxAge staleWhileRevalidate loadsPerSecond staleRatio maxStaleRatio }";
const ADVICE = `advice(maxStaleRatio: $maxStaleRatio) {
  coordinate kind reason diff comparisons changesPerHour maxChangesPerHour
  current ${LIFETIMES} proposed ${LIFETIMES} saving { loadsPerSecond loadMsPerSecond }
}`;

const OPTIONS = { "max-stale": { type: "string", default: "5" }, all: { type: "boolean" } } as const;

export const advise = serverCommand("advise", HELP, OPTIONS, async ({ values, positionals, terminal, connect }) => {
  const percents = { from: 0.1, to: 99, unit: "percent" };
  const maxStaleRatio = readNumber("advise", "--max-stale", values["max-stale"], percents) / 100;
  const source = await connect();
  if (!source.hasSchema)
    throw new CliError("advise: expected an endpoint: a Redis server does not know the policies; pass --endpoint");
  const variables = { maxStaleRatio: ["Float!", maxStaleRatio] } as const;
  const { sections, notes } = await inspect(source, [{ name: "advice", text: ADVICE }], variables);
  const advice = chosen("advise", sections.advice as readonly CacheAdvice[], positionals);
  const lines = pageOf(advice, values.all === true || positionals.length > 0);
  show(terminal, values.json === true ? { advice, notes } : undefined, lines, notes);
});

/** What saves most comes first. */
function pageOf(advice: readonly CacheAdvice[], isAll: boolean): string[] {
  const savedBy = ({ saving }: CacheAdvice): number => saving?.loadsPerSecond ?? 0;
  const proposals = advice
    .filter(({ kind }) => kind !== "NONE")
    .toSorted((one, other) => savedBy(other) - savedBy(one));
  const others = advice.filter(({ kind }) => kind === "NONE");
  const lines = [...proposals, ...(isAll ? others : [])].flatMap(describe);
  if (isAll || others.length === 0) return advice.length === 0 ? ["No cached fields or loaders."] : lines;
  const rest = proposals.length === 0 ? "fields and loaders" : others.length === 1 ? "other" : "others";
  return [...lines, `No advice for ${others.length} ${rest}; --all shows why.`];
}

function describe({ coordinate, reason, diff, current, proposed, saving }: CacheAdvice): string[] {
  const rows: [string, string][] = [["why", reason]];
  if (proposed == null || saving == null) return [printable(coordinate), ...wrapRows(rows, 10)];
  const { loadMsPerSecond } = saving;
  const what = loadMsPerSecond < 0 ? "costs" : "saves";
  const loads = `${rate(current.loadsPerSecond)}, then ${rate(proposed.loadsPerSecond)}`;
  const now = current.staleRatio == null ? "unknown" : `${share(current.staleRatio)} of the reads`;
  rows.push(
    ["loads", `${loads}; ${what} ${time(Math.abs(loadMsPerSecond))} of load time`],
    ["outdated", `${now}, then ${share(proposed.staleRatio)}, at most ${share(proposed.maxStaleRatio)}`],
  );
  const changed = (diff ?? "").split("\n").filter((line) => line !== "");
  return [printable(coordinate), ...wrapRows(rows, 10), ...changed.map((line) => `    ${printable(line)}`)];
}

const short = (number: number): string => String(number >= 100 ? Math.round(number) : Number(number.toPrecision(2)));
const rate = (perSecond: number): string =>
  perSecond >= 1 ? `${short(perSecond)} a second` : `${short(3600 * perSecond)} an hour`;
const time = (msPerSecond: number): string =>
  msPerSecond >= 1 ? `${short(msPerSecond)} ms a second` : `${short(3.6 * msPerSecond)} s an hour`;
const share = (ratio: number | null | undefined): string => `${short(100 * (ratio ?? 0))} %`;
