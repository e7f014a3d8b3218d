import { readArguments } from "./arguments.js";
import { CliError } from "./cli-error.js";
import { connect, SOURCE_HELP, SOURCE_OPTIONS } from "./connect.js";
import { inspect, mutate } from "./inspection.js";
import { OBSERVED, type Observation, observationText } from "./observation.js";
import { cell, jsonText, printable, type Terminal, wrap } from "./terminal.js";

const MODES = ["off", "observe", "on"];

export const MODE_HELP = `Usage: graphql-cached mode
       graphql-cached mode [<coordinate>] off|observe|on

Shows the modes that were set, and what observe has measured, or sets the mode
of a field or loader, or of everything, in all processes. They follow within
two seconds.

  off       neither look up nor store
  observe   look up and store, but answer from the source, and compare
  on        use the cache

Options:
  --json                     print the modes as JSON

${SOURCE_HELP}`;

interface Setting {
  readonly coordinate: string | null;
  readonly mode: string;
  readonly setAt: string;
  readonly setBy: string | null;
}

/** What was measured of a field or loader. */
interface Observed {
  readonly coordinate: string;
  readonly observed: Observation | null;
}

const SETTING = "coordinate mode setAt setBy";

/** Runs `graphql-cached mode`. */
export async function mode(argv: readonly string[], terminal: Terminal): Promise<number> {
  const { values, positionals } = readArguments("mode", argv, SOURCE_OPTIONS);
  if (values.help === true) {
    terminal.print(MODE_HELP);
    return 0;
  }
  const wanted = positionals.at(-1);
  if (positionals.length > 2 || (wanted !== undefined && !MODES.includes(wanted)))
    throw new CliError(
      `mode: expected [<coordinate>] and one of ${MODES.join(", ")}, or nothing, got ${printable(positionals.join(" "))}`,
    );
  const coordinate = positionals.length === 2 ? positionals[0] : undefined;
  const source = await connect("mode", values, terminal);
  try {
    let settings: readonly Setting[];
    let observed: readonly Observed[] = [];
    if (wanted === undefined) {
      const section = { name: "modes", text: `modes { ${SETTING} }`, isRequired: true };
      const fields = { name: "fields", text: `fields { coordinate ${OBSERVED} }`, isRequired: false };
      const { sections } = await inspect(source, [section, fields], { types: "", values: {} });
      settings = sections.modes as readonly Setting[];
      observed = (sections.fields ?? []) as readonly Observed[];
    } else {
      const text = `mutation GraphqlCached($mode: CacheMode!, $coordinate: String) { cacheSetMode(mode: $mode, coordinate: $coordinate) { ${SETTING} } }`;
      const given = { mode: wanted.toUpperCase(), ...(coordinate === undefined ? {} : { coordinate }) };
      settings = (await mutate(
        source,
        { name: "cacheSetMode", typeDefs: "controlTypeDefs", text },
        given,
      )) as readonly Setting[];
    }
    const measured = observed.filter((field) => field.observed !== null);
    if (values.json === true)
      terminal.print(jsonText({ modes: settings, ...(wanted === undefined ? { observed: measured } : {}) }, 2));
    else for (const line of [...table(settings), ...observations(measured)]) terminal.print(line);
    return 0;
  } finally {
    await source.close();
  }
}

function table(settings: readonly Setting[]): string[] {
  if (settings.length === 0) return ["No mode was set: everything is in its initial mode, which is on by default."];
  return settings.flatMap(({ coordinate, mode: set, setAt, setBy }) => [
    `${cell(coordinate ?? "(everything)", 40)} ${cell(set.toLowerCase(), 8)} ${cell(setAt, 24)}`.trimEnd(),
    ...(setBy === null ? [] : wrap(`by ${printable(setBy)}`, "  ")),
  ]);
}

const observations = (measured: readonly Observed[]): string[] => [
  ...(measured.length === 0 ? [] : ["", "Measured by observe, since the processes started:"]),
  ...measured.flatMap(({ coordinate, observed }) => [
    printable(coordinate),
    ...wrap(observationText(observed as Observation), "  "),
  ]),
];
