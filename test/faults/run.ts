/**
 * Fault runs with real processes, on a packed build: `npx tsx test/faults/run.ts`. Prints one line per run, and ends
 * with status 1 if a run shows what it must not. Each argument selects runs:
 *
 *   --store=redis|cluster|memcached   default: redis
 *   --without=gen|parts|keys|clock|head|execution|join   the same with a check removed; then stale reads are expected
 *   --seed=7                          default: 1
 *   --memory=off                      values are not kept in the memory of processes
 *   --responses                       whole responses are stored as well
 *   --kind=field --kind=clear         runs with one kind of invalidation only, each kind by itself, or --kind=each;
 *                                     default: by key and by tags, mixed
 *   net-cut chaos …                   names of scenarios; default: all
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ROOT } from "../project/source.js";
import { packedPackage } from "../support/packed-package.js";
import { CHECKS } from "./checks.js";
import type { InvalidationKind } from "./process.js";
import type { StoreKind } from "./rig.js";
import { type Extent, type RunResult, runOnServers, SCENARIOS, violationsOf } from "./scenarios.js";

const EXTENT: Extent = { hits: 1_000, confirmed: 50, rounds: 5, calmReads: 1_200 };
/** Each invalidation of these concerns all that is read. */
const WHOLE: readonly InvalidationKind[] = ["field", "loader", "clear"];
const WHOLE_EXTENT: Extent = { ...EXTENT, calmServedRatio: 0.5 };

const ALL_KINDS: readonly InvalidationKind[] = [
  "key",
  "tag",
  "result-tag",
  "field",
  "loader",
  "loader-id",
  "soft-tag",
  "clear",
];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    store: { type: "string", default: "redis" },
    without: { type: "string" },
    seed: { type: "string", default: "1" },
    kind: { type: "string", multiple: true, default: [] },
    memory: { type: "string", default: "on" },
    responses: { type: "boolean", default: false },
  },
});
const store = values.store as StoreKind;
const check = values.without === undefined ? undefined : CHECKS[values.without];
if (values.without !== undefined && check === undefined)
  throw new Error(`--without: expected ${Object.keys(CHECKS).join(" or ")}, got ${values.without}`);
const unknownKind = values.kind.find((kind) => kind !== "each" && !(ALL_KINDS as readonly string[]).includes(kind));
if (unknownKind !== undefined) throw new Error(`--kind: expected each, ${ALL_KINDS.join(", ")}, got ${unknownKind}`);
/** The kinds of each run of a scenario. Undefined: the default mix. */
const kindsOfRuns: readonly (readonly InvalidationKind[] | undefined)[] =
  values.kind.length === 0
    ? [undefined]
    : (values.kind.includes("each") ? ALL_KINDS : (values.kind as InvalidationKind[])).map((kind) => [kind]);
const named = (name: string): string => name.replaceAll(" ", "-");
const scenarios = SCENARIOS.filter(
  ({ name, stores = ["redis"] }) =>
    stores.includes(store) && (positionals.length === 0 || positionals.includes(named(name))),
);
if (scenarios.length === 0)
  throw new Error(
    `expected names of ${SCENARIOS.map(({ name }) => named(name)).join(", ")}, got ${positionals.join(", ")}`,
  );

const COLUMNS: readonly [title: string, of: (result: RunResult) => number | string][] = [
  ["s", ({ seconds }) => seconds.toFixed(0)],
  ["reads", ({ reads }) => reads],
  ["hits", ({ hits }) => hits],
  ["calm", ({ calmHitRatio }) => calmHitRatio.toFixed(2)],
  ["loads", ({ loads }) => loads],
  ["confirmed", ({ confirmed }) => confirmed],
  ["in faults", ({ confirmedDuringFaults }) => confirmedDuringFaults],
  ["in loads", ({ confirmedDuringLoads }) => confirmedDuringLoads],
  ["rejected", ({ unconfirmed }) => unconfirmed],
  ["changed", ({ changed }) => changed],
  ["at once", ({ maxLoads }) => maxLoads],
  ["errors", ({ failed }) => failed],
  ["stale", ({ stale }) => stale],
  ["(soft)", ({ softlyStale }) => softlyStale],
  ["(lost)", ({ staleAfterLoss }) => staleAfterLoss],
];
const line = (name: string, cells: readonly (number | string)[]): string =>
  name.padEnd(31) +
  cells.map((cell, nth) => String(cell).padStart(Math.max(6, COLUMNS[nth]?.[0].length ?? 0) + 1)).join("");

const built = packedPackage(`faults-${values.without ?? "whole"}`, check === undefined ? [] : [check]);
let failures = 0;
let stale = 0;
try {
  built.installPackages(["memcached"]);
  const path = built.write("process.ts", readFileSync(join(ROOT, "test/faults/process.ts"), "utf8"));
  built.compile();
  const program = path.replace(/\.ts$/, ".js");
  console.log(
    `${store}${values.without === undefined ? "" : `, without the check of the ${values.without}`}, seed ${values.seed}${values.memory === "off" ? ", without memory" : ""}${values.responses ? ", with responses" : ""}`,
  );
  console.log(
    line(
      "",
      COLUMNS.map(([title]) => title),
    ),
  );
  for (const [scenario, kinds] of scenarios.flatMap((one) => kindsOfRuns.map((kinds) => [one, kinds] as const))) {
    const name = kinds === undefined ? scenario.name : `${scenario.name}, ${kinds.join(" ")}`;
    try {
      const keepsResponses = values.responses;
      const options = {
        store,
        seed: Number(values.seed),
        program,
        keepsResponses,
        keepsInMemory: values.memory !== "off",
        ...(kinds === undefined ? {} : { kinds }),
      };
      const { calmServedRatio = 0.8 } = scenario;
      const extent =
        kinds?.some((kind) => WHOLE.includes(kind)) === true ? WHOLE_EXTENT : { ...EXTENT, calmServedRatio };
      const result = await runOnServers(scenario, extent, options);
      stale += result.stale;
      console.log(
        line(
          name,
          COLUMNS.map(([, of]) => of(result)),
        ),
      );
      const violations = check === undefined ? violationsOf(result, extent) : [];
      if (violations.length > 0) failures++;
      for (const violation of violations) console.log(`  FAILED: ${violation}`);
      if (violations.length > 0) console.log(`    in the calm phase: ${JSON.stringify(result.calmOutcomes)}`);
      if (violations.length > 0) for (const violation of result.violations) console.log(`    ${violation}`);
    } catch (error) {
      failures++;
      console.log(line(name, []), `FAILED: ${(error as Error).message}`);
    }
  }
} finally {
  built.remove();
}
if (check !== undefined) {
  console.log(`${stale} stale reads without the check of the ${values.without}`);
  if (stale === 0) failures++;
}
process.exit(failures === 0 ? 0 : 1);
