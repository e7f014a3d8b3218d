import { readArguments, readNumber } from "./arguments.js";
import { CliError } from "./cli-error.js";
import { connect, SOURCE_HELP, SOURCE_OPTIONS } from "./connect.js";
import { type Inspected, inspect, type Section } from "./inspection.js";
import { cell, compact, duration, jsonText, percent, printable, type Terminal, wrap } from "./terminal.js";

const WINDOWS: Readonly<Record<string, string>> = {
  "1m": "ONE_MINUTE",
  "10m": "TEN_MINUTES",
  "1h": "ONE_HOUR",
  start: "SINCE_START",
};
const ORDERS = ["reads", "loads", "failed", "hit"] as const;
type Order = (typeof ORDERS)[number];

export const TOP_HELP = `Usage: graphql-cached top [options]

Shows which fields and loaders are read most, how many reads the cache serves,
the hot keys and the processes. In a terminal, it refreshes until Ctrl+C.

Options:
  --window <1m|10m|1h|start> the time that is counted. Default: 10m
  --sort <${ORDERS.join("|")}>
                             the order of the fields. Default: reads
  --limit <n>                how many fields and keys to show. Default: 15
  --every <seconds>          how often to refresh. Default: 5
  --once                     print once
  --json                     print once, as JSON

${SOURCE_HELP}`;

/** Counts of a field or loader, as far as the server has them. */
interface Field {
  readonly coordinate: string;
  /** Whether these are the counts of its subtrees. */
  readonly isSubtree?: boolean;
  readonly stats: Readonly<Record<"reads" | "hit" | "stale" | "loads" | "failedLoads", number>> & {
    readonly staleIfError?: number;
    readonly hitRatio?: number | null;
    readonly loadMs?: { readonly p90Ms: number | null };
  };
}

interface HotKey {
  readonly coordinate: string;
  readonly digest: string;
  readonly reads: number;
  readonly args?: object | null;
  readonly source?: object | null;
  readonly id?: unknown;
}

interface Process {
  readonly isThis: boolean;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly isAlive: boolean;
  readonly missing?: string | null;
}

interface Settings {
  readonly order: Order;
  readonly limit: number;
}

/** Runs `graphql-cached top`. */
export async function top(argv: readonly string[], terminal: Terminal): Promise<number> {
  const { values, positionals } = readArguments("top", argv, {
    ...SOURCE_OPTIONS,
    window: { type: "string", default: "10m" },
    sort: { type: "string", default: "reads" },
    limit: { type: "string", default: "15" },
    every: { type: "string", default: "5" },
    once: { type: "boolean" },
  });
  if (values.help === true) {
    terminal.print(TOP_HELP);
    return 0;
  }
  if (positionals.length > 0) throw new CliError(`top: expected options only, got ${printable(positionals[0] ?? "")}`);
  const window = oneOf("--window", values.window, Object.keys(WINDOWS));
  const settings: Settings = {
    order: oneOf("--sort", values.sort, ORDERS) as Order,
    limit: readNumber("top", "--limit", values.limit, { from: 1, to: 10_000 }),
  };
  const everyMs = readNumber("top", "--every", values.every, { from: 1, to: 10_000 }) * 1_000;
  const source = await connect("top", values, terminal);
  try {
    const isOnce = values.once === true || values.json === true || !terminal.isTty;
    let isFirst = true;
    do {
      const inspected = await inspect(source, sectionsOf(settings.limit), {
        types: "$window: CacheWindow!",
        values: { window: WINDOWS[window] },
      }).catch((error: unknown) => {
        // A server that has answered once is asked again, for example after it was restarted.
        if (isFirst || !(error instanceof CliError)) throw error;
        return error;
      });
      isFirst = false;
      if (inspected instanceof CliError) {
        terminal.clear();
        for (const line of wrap(printable(inspected.message), "", "  ")) terminal.print(line);
      } else if (values.json === true) terminal.print(jsonText({ ...inspected.sections, notes: inspected.notes }, 2));
      else {
        if (!isOnce) terminal.clear();
        const isOlder = (inspected.sections.fields as readonly Field[]).some(
          ({ stats }) => stats.hitRatio === undefined,
        );
        const isSinceStart = window === "start" || isOlder;
        terminal.print(`${source.name} · ${isSinceStart ? "since the start" : `last ${window}`}`);
        for (const line of pageOf(inspected, settings, source.hasSchema)) terminal.print(line);
      }
    } while (!isOnce && (await terminal.sleep(everyMs)));
    return 0;
  } finally {
    await source.close();
  }
}

const sectionsOf = (limit: number): readonly Section[] => [
  {
    name: "fields",
    text: "fields(window: $window) { coordinate stats { reads hit stale staleIfError loads failedLoads hitRatio loadMs { p90Ms } } }",
    older: "fields { coordinate stats { reads hit stale staleIfError loads failedLoads } }",
    isRequired: true,
  },
  {
    name: "hotKeys",
    text: hotKeysText(limit, "source"),
    older: hotKeysText(limit, ""),
    isRequired: false,
  },
  {
    name: "subtrees",
    text: "subtrees: fields(window: $window) { coordinate subtrees { stats { reads hit stale staleIfError loads failedLoads hitRatio loadMs { p90Ms } } } }",
    isRequired: false,
    isNew: true,
  },
  { name: "modes", text: "modes { coordinate mode }", isRequired: false },
  { name: "processes", text: "processes { isThis host pid version isAlive missing }", isRequired: false },
];

const hotKeysText = (limit: number, more: string): string =>
  `hotKeys(window: $window, first: ${Math.min(limit, 5)}) { keys { coordinate digest reads args ${more} id } maxError }`;

/** `isServer`: whether a server has answered, and not a cache of this program. */
function pageOf({ sections, notes }: Inspected, { order, limit }: Settings, isServer: boolean): string[] {
  const subtrees = (sections.subtrees ?? []) as readonly {
    coordinate: string;
    subtrees: Pick<Field, "stats"> | null;
  }[];
  const read = subtrees.flatMap(({ coordinate, subtrees: own }): Field[] =>
    own === null || own.stats.reads === 0 ? [] : [{ coordinate, stats: own.stats, isSubtree: true }],
  );
  const fields = [...(sections.fields as readonly Field[]), ...read].toSorted(
    (one, other) => rank(other, order) - rank(one, order) || (one.coordinate < other.coordinate ? -1 : 1),
  );
  const modes = new Map(
    ((sections.modes ?? []) as readonly { coordinate: string | null; mode: string }[]).map((one) => [
      one.coordinate,
      one.mode,
    ]),
  );
  const modeOf = (coordinate: string): string => {
    const mode = modes.get(coordinate) ?? modes.get(null) ?? "ON";
    return mode === "ON" ? "" : mode.toLowerCase();
  };
  const lines = [
    "",
    `${cell("FIELD OR LOADER", 34)} ${"READS".padStart(6)} ${"HIT".padStart(5)} ${"LOADS".padStart(6)} ${"FAILED".padStart(6)} ${"P90 LOAD".padStart(9)} MODE`,
    ...fields.slice(0, limit).map((field) => {
      const { coordinate, stats, isSubtree = false } = field;
      const { p90Ms } = stats.loadMs ?? { p90Ms: null };
      const columns = [
        cell(isSubtree ? `${coordinate} (subtree)` : coordinate, 34),
        compact(stats.reads).padStart(6),
        percentOf(field).padStart(5),
        compact(stats.loads).padStart(6),
        compact(stats.failedLoads).padStart(6),
        (p90Ms === null ? "" : duration(p90Ms)).padStart(9),
        cell(modeOf(coordinate), 7),
      ];
      return columns.join(" ").trimEnd();
    }),
  ];
  if (fields.length === 0) lines.push("No cached fields or loaders.");
  if (fields.length > limit) lines.push(`and ${fields.length - limit} more; --limit shows them`);
  const hotKeys = sections.hotKeys as { readonly keys: readonly HotKey[]; readonly maxError: number } | undefined;
  if ([...modes.values()].includes("OBSERVE"))
    lines.push(...wrap("graphql-cached mode and graphql-cached fields show what observe has measured."));
  if (hotKeys !== undefined) {
    lines.push("", `${cell("HOT KEYS", 34)} ${"READS".padStart(6)}`);
    for (const key of hotKeys.keys)
      lines.push(`${cell(key.coordinate, 34)} ${compact(key.reads).padStart(6)} ${cell(keyText(key), 38)}`.trimEnd());
    if (hotKeys.keys.length === 0) lines.push("None yet: reads are counted by key while they are asked for.");
    else if (hotKeys.maxError > 0) lines.push(`Each count is too high by at most ${compact(hotKeys.maxError)}.`);
  }
  const processes = sections.processes as readonly Process[] | undefined;
  if (processes !== undefined) lines.push("", ...processLines(processes, limit, isServer));
  if (notes.length > 0) lines.push("", ...notes.flatMap((note) => wrap(`Note: ${note}`, "", "  ")));
  return lines;
}

function processLines(processes: readonly Process[], limit: number, isServer: boolean): string[] {
  const others = processes.filter(({ isThis }) => isServer || !isThis);
  const listed = others.filter(({ isAlive, missing }) => isAlive || missing);
  const lines = [`${cell("PROCESSES", 34)} ${"PID".padStart(6)} VERSION`];
  for (const { host, pid, version, isAlive, missing } of listed.slice(0, limit)) {
    lines.push(`${cell(host, 34)} ${String(pid).padStart(6)} ${cell(version, 12)} ${isAlive ? "" : "gone"}`.trimEnd());
    if (!isAlive && missing) lines.push(...wrap(printable(missing), "  "));
  }
  if (listed.length > limit) lines.push(`and ${listed.length - limit} more; --limit shows them`);
  const endedCount = others.length - listed.length;
  if (endedCount > 0) lines.push(`${endedCount} ${endedCount === 1 ? "has" : "have"} ended in the last 70 minutes.`);
  if (others.length === 0) lines.push("No process has reported; is it the prefix of your caches?");
  return lines;
}

/** The arguments of a field and the properties of its parent, the id of a loader, or else the digest. */
function keyText({ args, source, id, digest }: HotKey): string {
  const hasAny = (part: object | null | undefined): part is object => Object.keys(part ?? {}).length > 0;
  if (hasAny(source)) return `${hasAny(args) ? `${JSON.stringify(args)} ` : ""}of ${JSON.stringify(source)}`;
  if (args !== null && args !== undefined) return JSON.stringify(args);
  return id === null || id === undefined ? `#${digest.slice(0, 12)}` : JSON.stringify(id);
}

function hitRatioOf({ stats: { hitRatio, reads, hit, stale, staleIfError = 0 } }: Field): number | undefined {
  if (typeof hitRatio === "number") return hitRatio;
  return reads === 0 ? undefined : (hit + stale + staleIfError) / reads;
}

function percentOf(field: Field): string {
  const ratio = hitRatioOf(field);
  return ratio === undefined ? "" : percent(ratio);
}

function rank(field: Field, order: Order): number {
  const { reads, loads, failedLoads } = field.stats;
  // The worst hit ratio first; fields without reads last.
  return { reads, loads, failed: failedLoads, hit: 1 - (hitRatioOf(field) ?? 2) }[order];
}

function oneOf(option: string, given: string, known: readonly string[]): string {
  if (known.includes(given)) return given;
  throw new CliError(`top: ${option}: expected one of ${known.join(", ")}, got ${printable(given)}`);
}
