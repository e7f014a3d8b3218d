import type { CacheFieldStats, CacheMode, CacheSubtreeStats } from "../../generated/schema.js";
import { serverCommand, show } from "./command.js";
import { chosen, inspect } from "./inspection.js";
import { compact, percent, printable, wrapRows } from "./terminal.js";

const HELP = `Usage: graphql-cached fields [<coordinate>...] [options]

Lists the cached fields and the loaders, or those of the given coordinates:
policy, key, tags, mode, and what their subtrees did. Durations are in seconds. Settings that are off, such as staleWhileRevalidate: 0, are left out.

Options:
  --json                     print the fields as JSON, with all settings`;

/** A field or loader, as far as the server describes it. */
type Field = Pick<CacheFieldStats, "coordinate" | "maxAge" | "scope" | "policy" | "subtrees"> & {
  readonly mode?: CacheMode;
};

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

export const fields = serverCommand("fields", HELP, {}, async ({ values, positionals, terminal, connect }) => {
  const { sections, notes } = await inspect(await connect(), [
    {
      name: "fields",
      text: `fields { coordinate maxAge scope policy { ${ASKED.join(" ")} key tags } mode }`,
      older: "fields { coordinate maxAge scope }",
    },
    {
      name: "subtrees",
      text: "subtrees: fields { coordinate subtrees { stats { reads hitRatio } selections holes skipped { reason subject count } } }",
      isOptional: true,
      isNew: true,
    },
  ]);
  const withSubtrees = (sections.subtrees ?? []) as readonly Pick<Field, "coordinate" | "subtrees">[];
  const found = chosen("fields", sections.fields as readonly Field[], positionals).map((field): Field => {
    const own = withSubtrees.find(({ coordinate }) => coordinate === field.coordinate)?.subtrees;
    return own == null ? field : { ...field, subtrees: own };
  });
  const lines = found.length === 0 ? ["No cached fields or loaders."] : found.flatMap(describe);
  show(terminal, values.json === true ? { fields: found, notes } : undefined, lines, notes);
});

function describe({ coordinate, maxAge, scope, policy, mode = "ON", subtrees }: Field): string[] {
  const settings = policy ?? { maxAge, scope };
  // A field has them only with this setting, which the inspection does not list.
  const rows: [string, string][] = [
    ["policy", policyText(subtrees == null ? settings : { ...settings, subtree: true })],
  ];
  // A loader's key is its id, and its tags are computed.
  if (policy != null)
    rows.push(
      ["key", policy.key == null ? "the id" : policy.key.join(", ") || "the same for all calls"],
      ["tags", policy.tags == null ? "computed by the loader" : policy.tags.join(", ") || "none"],
    );
  if (mode !== "ON") rows.push(["mode", mode.toLowerCase()]);
  if (subtrees != null && (subtrees.stats.reads > 0 || subtrees.skipped.length > 0))
    rows.push(["subtrees", subtreesText(subtrees)]);
  return [printable(coordinate), ...wrapRows(rows, 10)];
}

function policyText(policy: Readonly<Record<string, unknown>>): string {
  if (policy.maxAge === null) return "known to other processes only";
  return Object.entries(SETTINGS)
    .filter(([name, off]) => policy[name] !== undefined && policy[name] !== off)
    .map(([name]) => `${name}: ${String(policy[name])}`)
    .join(", ");
}

function subtreesText({ stats: { reads, hitRatio }, selections, holes, skipped }: CacheSubtreeStats): string {
  const parts = [
    `${compact(reads)} reads${hitRatio == null ? "" : `, ${percent(hitRatio)} of them hits`}`,
    `${selections} ${selections === 1 ? "selection" : "selections"}`,
  ];
  if (holes.length > 0) parts.push(`holes: ${holes.join(", ")}`);
  const listed = skipped.map(({ reason, subject, count }) => `${reason} ${subject} ${compact(count)}`);
  if (listed.length > 0) parts.push(`skipped: ${listed.join(", ")}`);
  return parts.join("; ");
}
