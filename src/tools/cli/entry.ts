import type { CacheEntry, CacheFieldStats } from "../../generated/schema.js";
import { operationParts, type Variables } from "../inspection/asking.js";
import { serverCommand, show } from "./command.js";
import { inspect, type Source } from "./inspection.js";
import { KEY_HELP, KEY_OPTIONS, keyVariables } from "./key-options.js";
import { CliError, duration, printable, wrap, wrapRows } from "./terminal.js";

const HELP = `Usage: graphql-cached entry <coordinate> [options]

Shows the entry of one key: its state, age, size and lease, and why it is not
served. The coordinate is that of a field, such as Query.movie, or the name of
a loader. Needs --endpoint: a key can be made with the schema only.

Options:
${KEY_HELP}
  --json                     print the entry as JSON`;

const BASIC = "state negative ageMs freshForMs loadMs valueBytes leaseForMs outdated stale";
const FULL = `${BASIC} use explanation servableForMs
  lease { endsInMs process { host pid } }
  tags { static resultCount }
  invalidation { at via mutation process { host pid } }`;

/** An entry, as far as the server describes it. */
type Entry = Omit<CacheEntry, "use" | "explanation"> & Partial<Pick<CacheEntry, "use" | "explanation">>;

export const entry = serverCommand("entry", HELP, KEY_OPTIONS, async ({ values, positionals, terminal, connect }) => {
  const [coordinate, ...others] = positionals;
  if (coordinate === undefined || others.length > 0)
    throw new CliError(
      `entry: expected one coordinate, such as Query.movie, or the name of a loader, got ${positionals.length === 0 ? "none" : printable(positionals.join(" "))}; pass the rest of the key as --args '{"id": 7}' or --id 7`,
    );
  const key = keyVariables("entry", values, { json: "CacheArguments", id: "CacheId" });
  const source = await connect();
  if (!source.hasSchema)
    throw new CliError(
      "entry: a Redis server alone does not know the schema, with which keys are made; pass --endpoint",
    );
  const variables: Variables = { coordinate: ["String!", coordinate], ...key };
  const { passed } = operationParts("query", variables);
  const section = { name: "entry", text: `entry(${passed}) { ${FULL} }`, older: `entry(${passed}) { ${BASIC} }` };
  const { sections, notes } = await inspect(source, [section], variables);
  const found = sections.entry as Entry | null;
  if (values.json === true) show(terminal, { entry: found, notes }, []);
  else {
    const lines = found === null ? await describeMissing(coordinate, key, source) : describe(coordinate, found);
    show(terminal, undefined, lines, notes);
  }
});

/** Names the key that was looked for, and what the key of the field is made of. */
async function describeMissing(coordinate: string, given: Variables, source: Source): Promise<string[]> {
  const parts = Object.entries(given).map(([name, [, value]]) => `--${name} ${JSON.stringify(value)}`);
  const rows: Row[] = [["looked for", parts.length === 0 ? "a key without arguments" : parts.join(" ")]];
  const fields = await inspect(source, [{ name: "fields", text: "fields { coordinate scope policy { key } }" }]).then(
    ({ sections }) => sections.fields as readonly CacheFieldStats[],
    () => [],
  );
  const field = fields.find((one) => one.coordinate === coordinate);
  const key = field?.policy?.key;
  if (key != null)
    rows.push([
      "key",
      `${key.join(", ") || "the same for all calls"}${field?.scope === "PRIVATE" ? ", and the identity" : ""}`,
    ]);
  return [...wrap(printable(`${coordinate}: the store has no entry for this key.`)), ...wrapRows(rows, 14)];
}

type Row = readonly [name: string, text: string];

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
  const { lease, tags, explanation } = found;
  const leaseMs = lease?.endsInMs ?? found.leaseForMs;
  const holder = lease?.process;
  const of = holder?.host == null ? "" : `, process ${holder.pid} on ${holder.host}`;
  if (leaseMs != null) rows.push(["lease", `ends in ${duration(leaseMs)}${of}`]);
  if (tags) {
    const ofResult = tags.resultCount > 0 ? [`${tags.resultCount} of the result`] : [];
    rows.push(["tags", [...tags.static, ...ofResult].join(", ") || "none"]);
  }
  // It names the invalidation as well.
  if (explanation !== undefined) rows.push(["why", explanation]);
  return [printable(coordinate), ...wrapRows(rows, 14)];
}

function stateOf({ state, use, outdated, stale }: Entry): string {
  const word = state.toLowerCase().replaceAll("_", " ");
  if (use !== undefined)
    return use === "NONE" ? `${word}, not served` : `${word}, served as ${use.toLowerCase().replaceAll("_", " ")}`;
  return outdated ? `${word}, not served: invalidated` : stale ? `${word}, stale` : word;
}
