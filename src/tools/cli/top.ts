import type {
  CacheFieldStats,
  CacheHotKey,
  CacheHotKeys,
  CacheModeSetting,
  CacheProcess,
  CacheStats,
} from "../../generated/schema.js";
import { readNumber, serverCommand, show } from "./command.js";
import { type Inspected, type InspectedSection, inspect } from "./inspection.js";
import { type Column, type Look, NAME_WIDTH, tableOf } from "./table.js";
import { CliError, compact, duration, noteLines, painter, percent, printable, WIDTH, wrap } from "./terminal.js";

const WINDOWS: Readonly<Record<string, string>> = {
  "1m": "ONE_MINUTE",
  "10m": "TEN_MINUTES",
  "1h": "ONE_HOUR",
  start: "SINCE_START",
};
const ORDERS = ["reads", "loads", "failed", "hit"] as const;
type Order = (typeof ORDERS)[number];

const HELP = `Usage: graphql-cached top [options]

Shows which fields and loaders are read most, how many reads the cache serves,
the hot keys and the processes. In a terminal, it refreshes until Ctrl+C, with the reads and loads a second in between, in its
width and in colours; NO_COLOR=1 turns them off, FORCE_COLOR=1 on elsewhere.

Options:
  --window <1m|10m|1h|start> the time that is counted. Default: 10m
  --sort <${ORDERS.join("|")}>
                             the order of the fields. Default: reads
  --limit <n>                how many fields and keys to show. Default: 15
  --every <seconds>          how often to refresh. Default: 5
  --once                     print once
  --json                     print once, as JSON`;

/** Counts of a field or loader, as far as the server has them. */
interface Field extends Pick<CacheFieldStats, "coordinate"> {
  /** Whether these are the counts of its subtrees. */
  readonly isSubtree?: boolean;
  readonly stats: Omit<CacheStats, "loadMs"> & Partial<Pick<CacheStats, "loadMs">>;
}

type Counts = Pick<CacheStats, "reads" | "loads">;

const OPTIONS = {
  window: { type: "string", default: "10m" },
  sort: { type: "string", default: "reads" },
  limit: { type: "string", default: "15" },
  every: { type: "string", default: "5" },
  once: { type: "boolean" },
} as const;

export const top = serverCommand("top", HELP, OPTIONS, async ({ values, positionals, terminal, connect }) => {
  if (positionals.length > 0) throw new CliError(`top: expected options only, got ${printable(positionals[0] ?? "")}`);
  const window = oneOf("--window", values.window, Object.keys(WINDOWS));
  const order = oneOf("--sort", values.sort, ORDERS) as Order;
  const limit = readNumber("top", "--limit", values.limit, { from: 1, to: 10_000 });
  const everyMs = readNumber("top", "--every", values.every, { from: 1, to: 10_000 }) * 1_000;
  const source = await connect();
  const isOnce = values.once === true || values.json === true || !terminal.isTty;
  const sections = sectionsOf(limit, isOnce);
  const variables = { window: ["CacheWindow!", WINDOWS[window]] } as const;
  const paint = painter(terminal);
  let last: Totals | undefined;
  let isFirst = true;
  do {
    const look = { width: terminal.isTty ? (terminal.columns ?? WIDTH) : WIDTH, paint };
    const inspected = await inspect(source, sections, variables).catch((error: unknown) => {
      // A server that has answered once is asked again, for example after it was restarted.
      if (isFirst || !(error instanceof CliError)) throw error;
      return error;
    });
    isFirst = false;
    if (!isOnce) terminal.clear();
    if (inspected instanceof CliError) {
      show(terminal, undefined, wrap(printable(inspected.message), "", "  ", look.width));
      continue;
    }
    const json = values.json === true ? { ...inspected.sections, notes: inspected.notes } : undefined;
    const fields = inspected.sections.fields as readonly Field[];
    const isOlder = fields.some(({ stats }) => stats.hitRatio === undefined);
    const totals = totalsOf((inspected.sections.totals ?? []) as readonly CacheFieldStats[]);
    const rated = ratesBetween(last, totals);
    last = totals ?? last;
    const parts = [source.name, window === "start" || isOlder ? "since the start" : `last ${window}`];
    if (rated !== undefined) parts.push(`/S over ${duration(rated.spanMs)}`);
    const lines = pageOf(inspected, { order, limit, isServer: source.hasSchema, look, rated });
    show(terminal, json, [...wrap(parts.join(" · "), "", "  ", look.width), ...lines]);
  } while (!isOnce && (await terminal.sleep(everyMs)));
});

const STATS = "reads hit stale staleIfError loads failedLoads";

/** `isOnce`: there are no rates. */
const sectionsOf = (limit: number, isOnce: boolean): readonly InspectedSection[] => [
  {
    name: "fields",
    text: `fields(window: $window) { coordinate stats { ${STATS} hitRatio loadMs { p90Ms } } }`,
    older: `fields { coordinate stats { ${STATS} } }`,
  },
  { name: "hotKeys", text: hotKeysText(limit, "source"), older: hotKeysText(limit, ""), isOptional: true },
  {
    name: "subtrees",
    text: `subtrees: fields(window: $window) { coordinate subtrees { stats { ${STATS} hitRatio loadMs { p90Ms } } } }`,
    isOptional: true,
    isNew: true,
  },
  ...(isOnce
    ? []
    : [
        {
          name: "totals",
          text: "totals: fields { coordinate stats { reads loads until } subtrees { stats { reads loads } } }",
          isOptional: true,
          isNew: true,
        },
      ]),
  { name: "modes", text: "modes { coordinate mode }", isOptional: true },
  { name: "processes", text: "processes { isThis host pid version isAlive missing }", isOptional: true },
];

const hotKeysText = (limit: number, more: string): string =>
  `hotKeys(window: $window, first: ${Math.min(limit, 5)}) { keys { coordinate digest reads args ${more} id } maxError }`;

/** Counts by the name of the row, and when they were made, on the server's clock. */
interface Totals {
  readonly at: number;
  readonly counts: ReadonlyMap<string, Counts>;
}

/** What was counted a second, by the name of the row. */
interface Rated {
  readonly spanMs: number;
  readonly perSecond: ReadonlyMap<string, Counts>;
}

/** Undefined if the server does not have the counts. */
function totalsOf(totals: readonly CacheFieldStats[]): Totals | undefined {
  const at = Date.parse(totals[0]?.stats.until ?? "");
  if (Number.isNaN(at)) return undefined;
  const counts = new Map<string, Counts>();
  for (const { coordinate, stats, subtrees } of totals) {
    counts.set(coordinate, stats);
    if (subtrees != null) counts.set(nameOf({ coordinate, isSubtree: true }), subtrees.stats);
  }
  return { at, counts };
}

/** Compares the counts of two answers. The window would lose old reads meanwhile, so they are those since the start. */
function ratesBetween(last: Totals | undefined, totals: Totals | undefined): Rated | undefined {
  if (last === undefined || totals === undefined || totals.at <= last.at) return undefined;
  const spanMs = totals.at - last.at;
  const perSecond = new Map<string, Counts>();
  for (const [name, { reads, loads }] of totals.counts) {
    const before = last.counts.get(name) ?? { reads: 0, loads: 0 };
    // The counts of processes that have ended are forgotten one day.
    if (reads < before.reads || loads < before.loads) continue;
    const rateOf = (count: number): number => (count / spanMs) * 1_000;
    perSecond.set(name, { reads: rateOf(reads - before.reads), loads: rateOf(loads - before.loads) });
  }
  return { spanMs, perSecond };
}

const nameOf = ({ coordinate, isSubtree = false }: Pick<Field, "coordinate" | "isSubtree">): string =>
  isSubtree ? `${coordinate} (subtree)` : coordinate;

const perSecond = (count: number): string => (count > 0 && count < 9.95 ? count.toFixed(1) : compact(count));

interface PageOptions {
  readonly order: Order;
  readonly limit: number;
  /** Whether a server has answered, and not a cache of this program. */
  readonly isServer: boolean;
  readonly look: Look;
  readonly rated: Rated | undefined;
}

function pageOf({ sections, notes }: Inspected, { order, limit, isServer, look, rated }: PageOptions): string[] {
  const subtrees = (sections.subtrees ?? []) as readonly CacheFieldStats[];
  const read = subtrees.flatMap(({ coordinate, subtrees: own }): Field[] =>
    own == null || own.stats.reads === 0 ? [] : [{ coordinate, stats: own.stats, isSubtree: true }],
  );
  const fields = [...(sections.fields as readonly Field[]), ...read].toSorted(
    (one, other) => rank(other, order) - rank(one, order) || (one.coordinate < other.coordinate ? -1 : 1),
  );
  const set = (sections.modes ?? []) as readonly CacheModeSetting[];
  const modes = new Map(set.map(({ coordinate, mode }) => [coordinate, mode]));
  const modeOf = ({ coordinate }: Field): string => {
    const mode = modes.get(coordinate) ?? modes.get(null) ?? "ON";
    return mode === "ON" ? "" : mode.toLowerCase();
  };
  const rateColumn = (name: keyof Counts, dropped: number): Column<Field>[] => {
    const rateOf = (field: Field): number | undefined => rated?.perSecond.get(nameOf(field))?.[name];
    const textOf = (field: Field): string => {
      const rate = rateOf(field);
      return rate === undefined ? "" : perSecond(rate);
    };
    const column: Column<Field> = {
      title: "/S",
      width: 6,
      rank: dropped,
      textOf,
      colorOf: (field) => (rateOf(field) ? "cyan" : undefined),
    };
    return rated === undefined ? [] : [column];
  };
  const columns: Column<Field>[] = [
    { title: "READS", width: 6, textOf: ({ stats }) => compact(stats.reads) },
    ...rateColumn("reads", 1),
    { title: "HIT", width: 5, textOf: percentOf, colorOf: hitColorOf },
    { title: "LOADS", width: 6, rank: 2, textOf: ({ stats }) => compact(stats.loads) },
    ...rateColumn("loads", 5),
    {
      title: "FAILED",
      width: 6,
      rank: 3,
      textOf: ({ stats }) => compact(stats.failedLoads),
      colorOf: ({ stats }) => (stats.failedLoads > 0 ? "red" : undefined),
    },
    {
      title: "P90 LOAD",
      width: 9,
      rank: 4,
      textOf: ({ stats: { loadMs } }) => (typeof loadMs?.p90Ms === "number" ? duration(loadMs.p90Ms) : ""),
    },
    // Rates take its place while no mode is set.
    ...(rated !== undefined && fields.every((field) => modeOf(field) === "")
      ? []
      : [{ title: "MODE", width: 7, isText: true, textOf: modeOf, colorOf: () => "yellow" as const }]),
  ];
  const shown = fields.slice(0, limit).map((field) => [nameOf(field), field] as const);
  const lines = ["", ...tableOf("FIELD OR LOADER", shown, columns, look)];
  if (fields.length === 0) lines.push("No cached fields or loaders.");
  if (fields.length > limit) lines.push(`and ${fields.length - limit} more; --limit shows them`);
  const hotKeys = sections.hotKeys as CacheHotKeys | undefined;
  if (hotKeys !== undefined) {
    const keyColumns: Column<CacheHotKey>[] = [
      { title: "READS", width: 6, textOf: ({ reads }) => compact(reads) },
      { title: "", width: Math.max(10, look.width - NAME_WIDTH - 8), isText: true, textOf: keyText },
    ];
    const keys = hotKeys.keys.map((key) => [key.coordinate, key] as const);
    lines.push("", ...tableOf("HOT KEYS", keys, keyColumns, look));
    if (keys.length === 0) lines.push("None yet: reads are counted by key while they are asked for.");
    else if (hotKeys.maxError > 0) lines.push(`Each count is too high by at most ${compact(hotKeys.maxError)}.`);
  }
  const processes = sections.processes as readonly CacheProcess[] | undefined;
  if (processes !== undefined) lines.push("", ...processLines(processes, limit, isServer, look));
  return notes.length > 0 ? [...lines, "", ...noteLines(notes, look.width)] : lines;
}

const PROCESS_COLUMNS: readonly Column<CacheProcess>[] = [
  { title: "PID", width: 6, textOf: ({ pid }) => String(pid) },
  { title: "VERSION", width: 12, isText: true, textOf: ({ version }) => version },
  { title: "", width: 4, isText: true, textOf: ({ isAlive }) => (isAlive ? "" : "gone"), colorOf: () => "red" },
];

function processLines(processes: readonly CacheProcess[], limit: number, isServer: boolean, look: Look): string[] {
  const others = processes.filter(({ isThis }) => isServer || !isThis);
  const listed = others.filter(({ isAlive, missing }) => isAlive || missing);
  const shown = listed.slice(0, limit).map((process) => [process.host, process] as const);
  const [head = "", ...rows] = tableOf("PROCESSES", shown, PROCESS_COLUMNS, look);
  const lines = shown.flatMap(([, { isAlive, missing }], nth) => [
    rows[nth] ?? "",
    ...(!isAlive && missing ? wrap(printable(missing), "  ", "  ", look.width) : []),
  ]);
  if (listed.length > limit) lines.push(`and ${listed.length - limit} more; --limit shows them`);
  const endedCount = others.length - listed.length;
  if (endedCount > 0) lines.push(`${endedCount} ${endedCount === 1 ? "has" : "have"} ended in the last 70 minutes.`);
  if (others.length === 0) lines.push("No process has reported; is it the prefix of your caches?");
  return [head, ...lines];
}

/** The arguments of a field, and its parent: type and properties; the id of a loader; or else the digest. */
function keyText({ coordinate, args, source, id, digest }: CacheHotKey): string {
  const hasAny = (part: object | null | undefined): part is object => Object.keys(part ?? {}).length > 0;
  if (hasAny(source))
    return `${hasAny(args) ? `${JSON.stringify(args)} ` : ""}of ${coordinate.split(".")[0]} ${JSON.stringify(source)}`;
  if (args !== null && args !== undefined) return JSON.stringify(args);
  return id === null || id === undefined ? `#${digest.slice(0, 12)}` : JSON.stringify(id);
}

function hitRatioOf({ stats: { hitRatio, reads, hit, stale, staleIfError = 0 } }: Field): number | undefined {
  if (typeof hitRatio === "number") return hitRatio;
  return reads === 0 ? undefined : (hit + stale + staleIfError) / reads;
}

function hitColorOf(field: Field): "green" | "yellow" | "red" | undefined {
  const ratio = hitRatioOf(field);
  if (ratio === undefined) return undefined;
  return ratio >= 0.9 ? "green" : ratio >= 0.5 ? "yellow" : "red";
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
