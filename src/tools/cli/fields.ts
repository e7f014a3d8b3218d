import { readArguments } from "./arguments.js";
import { CliError } from "./cli-error.js";
import { connect, SOURCE_HELP, SOURCE_OPTIONS } from "./connect.js";
import { inspect } from "./inspection.js";
import { OBSERVED, type Observation, observationText } from "./observation.js";
import { type FieldSubtrees, SUBTREES, subtreesText } from "./subtrees.js";
import { jsonText, printable, type Terminal, wrap } from "./terminal.js";

export const FIELDS_HELP = `Usage: graphql-cached fields [<coordinate>...] [options]

Lists the cached fields and the loaders, or those of the given coordinates:
policy, key, tags, mode, what observe has measured, and what their subtrees
did. Durations are in seconds. Settings that are off, such as staleWhileRevalidate: 0, are left out.

Options:
  --json                     print the fields as JSON, with all settings

${SOURCE_HELP}`;

/** A policy, with the settings of its type, its profile and the defaults applied. */
type Policy = Readonly<Record<string, unknown>> & {
  readonly key: readonly string[] | null;
  readonly tags: readonly string[] | null;
};

/** A field or loader, as far as the server describes it. */
interface Field {
  readonly coordinate: string;
  readonly maxAge: number | null;
  readonly scope: string | null;
  readonly policy?: Policy | null;
  readonly mode?: string;
  readonly observed?: Observation | null;
  /** Missing unless it has some. */
  readonly subtrees?: FieldSubtrees | null;
}

/** The settings, in the order in which they are shown, and the value at which each is off. */
const SETTINGS: Readonly<Record<string, unknown>> = {
  maxAge: undefined,
  maxAgeLimit: null,
  staleWhileRevalidate: 0,
  refresh: "BACKGROUND",
  neverExpires: false,
  staleIfError: 0,
  negativeMaxAge: undefined,
  jitter: 0,
  earlyRefresh: 0,
  scope: undefined,
  readOnly: false,
  profile: null,
  version: null,
  followsHints: false,
  subtree: false,
};

/** Those that a server is asked for. */
const ASKED = Object.keys(SETTINGS).filter((name) => name !== "subtree");

/** Runs `graphql-cached fields`. */
export async function fields(argv: readonly string[], terminal: Terminal): Promise<number> {
  const { values, positionals } = readArguments("fields", argv, SOURCE_OPTIONS);
  if (values.help === true) {
    terminal.print(FIELDS_HELP);
    return 0;
  }
  const source = await connect("fields", values, terminal);
  try {
    const section = {
      name: "fields",
      text: `fields { coordinate maxAge scope policy { ${ASKED.join(" ")} key tags } mode ${OBSERVED} }`,
      older: "fields { coordinate maxAge scope }",
      isRequired: true,
    };
    const subtrees = {
      name: "subtrees",
      text: `subtrees: fields { coordinate subtrees { stats { reads hitRatio } ${SUBTREES} } }`,
      isRequired: false,
      isNew: true,
    };
    const { sections, notes } = await inspect(source, [section, subtrees], { types: "", values: {} });
    const ofFields = new Map(
      ((sections.subtrees ?? []) as readonly Pick<Field, "coordinate" | "subtrees">[]).map((one) => [
        one.coordinate,
        one.subtrees,
      ]),
    );
    const found = chosen(sections.fields as readonly Field[], positionals).map((field): Field => {
      const own = ofFields.get(field.coordinate);
      return own == null ? field : { ...field, subtrees: own };
    });
    if (values.json === true) terminal.print(jsonText({ fields: found, notes }, 2));
    else
      for (const line of [
        ...(found.length === 0 ? ["No cached fields or loaders."] : found.flatMap(describe)),
        ...notes.flatMap((note) => wrap(`Note: ${note}`, "", "  ")),
      ])
        terminal.print(line);
    return 0;
  } finally {
    await source.close();
  }
}

function chosen(known: readonly Field[], coordinates: readonly string[]): readonly Field[] {
  const names = known.map(({ coordinate }) => coordinate);
  for (const coordinate of coordinates)
    if (!names.includes(coordinate))
      throw new CliError(
        `fields: expected a cached field or a loader, got ${printable(coordinate)}; known are ${printable(names.join(", ")) || "none"}`,
      );
  return coordinates.length === 0 ? known : known.filter(({ coordinate }) => coordinates.includes(coordinate));
}

function describe({ coordinate, maxAge, scope, policy, mode = "ON", observed, subtrees }: Field): string[] {
  const settings = policy ?? { maxAge, scope };
  // A field has them only with this setting, which the inspection does not list.
  const rows: [string, string][] = [
    ["policy", policyText(subtrees == null ? settings : { ...settings, subtree: true })],
  ];
  // A loader's key is its id, and its tags are computed.
  if (policy != null)
    rows.push(
      ["key", policy.key === null ? "the id" : policy.key.join(", ") || "the same for all calls"],
      ["tags", policy.tags === null ? "computed by the loader" : policy.tags.join(", ") || "none"],
    );
  if (mode !== "ON") rows.push(["mode", mode.toLowerCase()]);
  if (observed != null) rows.push(["observed", observationText(observed)]);
  const text = subtrees == null ? undefined : subtreesText(subtrees);
  if (text !== undefined) rows.push(["subtrees", text]);
  return [
    printable(coordinate),
    ...rows.flatMap(([name, text]) => wrap(printable(text), `  ${name.padEnd(10)}`, " ".repeat(12))),
  ];
}

function policyText(policy: Readonly<Record<string, unknown>>): string {
  if (policy.maxAge === null) return "known to other processes only";
  return Object.entries(SETTINGS)
    .filter(([name, off]) => policy[name] !== undefined && policy[name] !== off)
    .map(([name]) => `${name}: ${String(policy[name])}`)
    .join(", ");
}
