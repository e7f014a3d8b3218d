import type { CacheFieldStats, CacheModeSetting, CacheObservation } from "../../generated/schema.js";
import type { Variables } from "../inspection/asking.js";
import { serverCommand, show } from "./command.js";
import { inspect, mutate } from "./inspection.js";
import { CliError, cell, compact, percent, printable, wrap } from "./terminal.js";

const MODES = ["off", "observe", "on"];

const HELP = `Usage: graphql-cached mode
       graphql-cached mode [<coordinate>] off|observe|on

Shows the modes that were set, and what observe has measured, or sets the mode
of a field or loader, or of everything, in all processes. They follow within
two seconds.

  off       neither look up nor store
  observe   look up and store, but answer from the source, and compare
  on        use the cache

Options:
  --json                     print the modes as JSON`;

const SETTING = "{ coordinate mode setAt setBy }";

/** The counts of reads in the mode observe. */
export const OBSERVED =
  "observed { reads hit stale miss bypassed hitRatio compared different comparedStale differentStale }";

export const mode = serverCommand("mode", HELP, {}, async ({ values, positionals, terminal, connect }) => {
  const wanted = positionals.at(-1);
  if (positionals.length > 2 || (wanted !== undefined && !MODES.includes(wanted)))
    throw new CliError(
      `mode: expected [<coordinate>] and one of ${MODES.join(", ")}, or nothing, got ${printable(positionals.join(" "))}`,
    );
  const [coordinate] = positionals.slice(0, -1);
  const source = await connect();
  if (wanted !== undefined) {
    const variables: Variables = {
      mode: ["CacheMode!", wanted.toUpperCase()],
      ...(coordinate === undefined ? {} : { coordinate: ["String", coordinate] }),
    };
    const modes = await mutate(source, "cacheSetMode", variables, "controlTypeDefs", ` ${SETTING}`);
    show(terminal, values.json === true ? { modes } : undefined, settingLines(modes as readonly CacheModeSetting[]));
    return;
  }
  const { sections } = await inspect(source, [
    { name: "modes", text: `modes ${SETTING}` },
    { name: "fields", text: `fields { coordinate ${OBSERVED} }`, isOptional: true },
  ]);
  const modes = sections.modes as readonly CacheModeSetting[];
  const fields = (sections.fields ?? []) as readonly CacheFieldStats[];
  const observed = fields.filter((field) => field.observed != null);
  const measured = observed.flatMap((field) => [
    printable(field.coordinate),
    ...wrap(observationText(field.observed as CacheObservation), "  "),
  ]);
  if (measured.length > 0) measured.unshift("", "Measured by observe, since the processes started:");
  show(terminal, values.json === true ? { modes, observed } : undefined, [...settingLines(modes), ...measured]);
});

function settingLines(settings: readonly CacheModeSetting[]): string[] {
  if (settings.length === 0) return ["No mode was set: everything is in its initial mode, which is on by default."];
  return settings.flatMap(({ coordinate, mode: set, setAt, setBy }) => [
    `${cell(coordinate ?? "(everything)", 40)} ${cell(set.toLowerCase(), 8)} ${cell(setAt, 24)}`.trimEnd(),
    ...(setBy == null ? [] : wrap(`by ${printable(setBy)}`, "  ")),
  ]);
}

export function observationText(seen: CacheObservation): string {
  const { reads, hitRatio, stale, bypassed, compared, different, comparedStale, differentStale } = seen;
  const parts = [`${compact(reads)} reads, ${percent(hitRatio)} would be fresh hits`];
  if (stale > 0) parts.push(`${compact(stale)} stale`);
  if (bypassed > 0) parts.push(`${compact(bypassed)} bypassed`);
  const values = (count: number): string => `${compact(count)} ${count === 1 ? "value" : "values"}`;
  parts.push(
    compared === 0
      ? "no value was compared yet"
      : `${compact(different)} of ${values(compared)} differed from the source`,
  );
  if (comparedStale > 0) parts.push(`${compact(differentStale)} of ${values(comparedStale)} that were stale`);
  return parts.join("; ");
}
