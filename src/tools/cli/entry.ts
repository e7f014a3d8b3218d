import { readArguments } from "./arguments.js";
import { CliError } from "./cli-error.js";
import { connect, SOURCE_HELP, SOURCE_OPTIONS } from "./connect.js";
import { inspect } from "./inspection.js";
import { asArguments, KEY_HELP, KEY_OPTIONS, keyVariables } from "./key-options.js";
import type { Source } from "./source.js";
import { duration, jsonText, printable, type Terminal, wrap } from "./terminal.js";

export const ENTRY_HELP = `Usage: graphql-cached entry <coordinate> [options]

Shows the entry of one key: its state, age, size and lease, and why it is not
served. The coordinate is that of a field, such as Query.movie, or the name of
a loader. Needs --endpoint: a key can be made with the schema only.

Options:
${KEY_HELP}
  --json                     print the entry as JSON

${SOURCE_HELP}`;

const TYPES = {
  coordinate: "String!",
  args: "CacheArguments",
  source: "CacheArguments",
  context: "CacheArguments",
  id: "CacheId",
  private: "ID",
};
const BASIC = "state negative ageMs freshForMs loadMs valueBytes leaseForMs outdated stale";
const FULL = `${BASIC} use explanation servableForMs
  lease { endsInMs process { host pid } }
  tags { static resultCount }
  invalidation { at via mutation process { host pid } }`;

/** An entry, as far as the server describes it. */
interface Entry {
  readonly state: string;
  readonly negative: boolean;
  readonly ageMs: number;
  readonly freshForMs: number;
  readonly loadMs: number;
  readonly valueBytes: number;
  readonly leaseForMs: number | null;
  readonly outdated: boolean;
  readonly stale: boolean;
  readonly use?: string;
  readonly explanation?: string;
  readonly servableForMs?: number | null;
  readonly lease?: { readonly endsInMs: number; readonly process: Process | null } | null;
  readonly tags?: { readonly static: readonly string[]; readonly resultCount: number } | null;
}

interface Process {
  readonly host: string | null;
  readonly pid: number | null;
}

/** Runs `graphql-cached entry`. */
export async function entry(argv: readonly string[], terminal: Terminal): Promise<number> {
  const { values, positionals } = readArguments("entry", argv, { ...SOURCE_OPTIONS, ...KEY_OPTIONS });
  if (values.help === true) {
    terminal.print(ENTRY_HELP);
    return 0;
  }
  const [coordinate, ...others] = positionals;
  if (coordinate === undefined || others.length > 0)
    throw new CliError(
      `entry: expected one coordinate, such as Query.movie, or the name of a loader, got ${positionals.length === 0 ? "none" : printable(positionals.join(" "))}; pass the rest of the key as --args '{"id": 7}' or --id 7`,
    );
  const variables = { coordinate, ...keyVariables("entry", values) };
  const source = await connect("entry", values, terminal);
  try {
    if (!source.hasSchema)
      throw new CliError(
        "entry: a Redis server alone does not know the schema, with which keys are made; pass --endpoint",
      );
    const { definitions, text } = asArguments(variables, TYPES);
    const { sections, notes } = await inspect(
      source,
      [{ name: "entry", text: `entry(${text}) { ${FULL} }`, older: `entry(${text}) { ${BASIC} }`, isRequired: true }],
      { types: definitions, values: variables },
    );
    const found = sections.entry as Entry | null;
    if (values.json === true) terminal.print(jsonText({ entry: found, notes }, 2));
    else {
      const lines = found === null ? await describeMissing(coordinate, variables, source) : describe(coordinate, found);
      for (const line of [...lines, ...notes.flatMap((note) => wrap(`Note: ${note}`, "", "  "))]) terminal.print(line);
    }
    return 0;
  } finally {
    await source.close();
  }
}

/** Names the key that was looked for, and what the key of the field is made of. */
async function describeMissing(
  coordinate: string,
  { coordinate: _, ...given }: Readonly<Record<string, unknown>>,
  source: Source,
): Promise<string[]> {
  const rows: Row[] = [];
  const parts = Object.entries(given).map(([name, value]) => `--${name} ${JSON.stringify(value)}`);
  rows.push(["looked for", parts.length === 0 ? "a key without arguments" : parts.join(" ")]);
  const section = { name: "fields", text: "fields { coordinate scope policy { key } }", isRequired: true };
  const fields = await inspect(source, [section], { types: "", values: {} }).then(
    ({ sections }) => sections.fields as readonly PolicyOfField[],
    () => [],
  );
  const field = fields.find((one) => one.coordinate === coordinate);
  const key = field?.policy?.key;
  if (key != null)
    rows.push([
      "key",
      `${key.join(", ") || "the same for all calls"}${field?.scope === "PRIVATE" ? ", and the identity" : ""}`,
    ]);
  return [...wrap(printable(`${coordinate}: the store has no entry for this key.`)), ...linesOf(rows)];
}

interface PolicyOfField {
  readonly coordinate: string;
  readonly scope: string | null;
  readonly policy: { readonly key: readonly string[] | null } | null;
}

type Row = readonly [name: string, text: string];

const linesOf = (rows: readonly Row[]): string[] =>
  rows.flatMap(([name, text]) => wrap(printable(text), `  ${name.padEnd(14)}`, " ".repeat(16)));

function describe(coordinate: string, found: Entry): string[] {
  const rows: Row[] = [["state", stateOf(found)]];
  // An entry that was removed has nothing but a reason.
  if (found.state !== "ABSENT") {
    rows.push(["age", duration(found.ageMs)]);
    if (!found.outdated && found.use !== "NONE")
      rows.push([found.freshForMs > 0 ? "fresh for" : "stale for", duration(Math.abs(found.freshForMs))]);
    if (typeof found.servableForMs === "number") rows.push(["servable for", duration(found.servableForMs)]);
    rows.push(
      ["load took", duration(found.loadMs)],
      ["size", `${found.valueBytes} bytes${found.negative ? ", null or an empty list" : ""}`],
    );
  }
  const leaseMs = found.lease?.endsInMs ?? found.leaseForMs;
  if (leaseMs !== null) rows.push(["lease", `ends in ${duration(leaseMs)}${of(found.lease?.process)}`]);
  if (found.tags) rows.push(["tags", tagText(found.tags)]);
  // It names the invalidation as well.
  if (found.explanation !== undefined) rows.push(["why", found.explanation]);
  return [printable(coordinate), ...linesOf(rows)];
}

function stateOf({ state, use, outdated, stale }: Entry): string {
  const word = state.toLowerCase().replaceAll("_", " ");
  if (use !== undefined)
    return use === "NONE" ? `${word}, not served` : `${word}, served as ${use.toLowerCase().replaceAll("_", " ")}`;
  return outdated ? `${word}, not served: invalidated` : stale ? `${word}, stale` : word;
}

const tagText = ({ static: names, resultCount }: NonNullable<Entry["tags"]>): string =>
  [...names, ...(resultCount > 0 ? [`${resultCount} of the result`] : [])].join(", ") || "none";

const of = (process: Process | null | undefined): string =>
  process?.host == null ? "" : `, process ${process.pid} on ${process.host}`;
