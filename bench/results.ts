import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { evaluateTargets, formatAbout, formatScenario, formatTargets, type Report } from "./report.js";

const FOLDER = fileURLToPath(new URL("./results/", import.meta.url));
/** Packages of the root that are measured as well. */
const SERVERS = ["@apollo/server", "graphql-yoga"];

export const describeMachine = (): string =>
  `${cpus().length} x ${cpus()[0]?.model.trim() ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GB, ${process.platform} ${release()}`;

/** Returns the versions of everything that affects the results. */
export function readVersions(redisVersion: string): Record<string, string> {
  const read = (file: string): { version: string; dependencies?: Record<string, string> } =>
    JSON.parse(readFileSync(new URL(file, import.meta.url), "utf8"));
  const names = [...Object.keys(read("./package.json").dependencies ?? {}), ...SERVERS];
  const folderOf = (name: string): string =>
    existsSync(new URL(`./node_modules/${name}/package.json`, import.meta.url)) ? "." : "..";
  const installed = names.map((name) => [name, read(`${folderOf(name)}/node_modules/${name}/package.json`).version]);
  const own = read("../package.json").version;
  return { "graphql-cached": own, ...Object.fromEntries(installed), redis: redisVersion, node: process.versions.node };
}

/** A full run, a quick run, or single scenarios. */
export type RunKind = "full" | "quick" | "some";

/**
 * Saves a run as `results/<date>.json` and its tables as `<date>.md`, with a suffix for quick runs and for single scenarios. Replaces an
 * earlier run of the same kind and day. Returns the path of the JSON file.
 */
export function saveResults(report: Report, kind: RunKind): string {
  const name = `${report.date.slice(0, 10)}${kind === "full" ? "" : `.${kind}`}`;
  const targets = formatTargets(Object.values(report.scenarios).flatMap(evaluateTargets));
  const tables = Object.entries(report.scenarios).map(
    ([scenario, one]) => `## ${one.title} (\`${scenario}\`)\n\n${formatScenario(one)}`,
  );
  const text = [`# Results of ${report.date.slice(0, 10)}`, formatAbout(report), "## Targets", targets, ...tables];
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, `${name}.md`), `${text.join("\n\n")}\n`);
  const file = join(FOLDER, `${name}.json`);
  // Four digits are more than the measurements are good for.
  const rounded = (_key: string, value: unknown): unknown =>
    typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value;
  // Objects without objects in them, such as spreads, have a line each.
  const json = JSON.stringify(report, rounded, 1).replaceAll(/\{[^{}[\]]*\}/g, (flat) => flat.replaceAll(/\s+/g, " "));
  writeFileSync(file, `${json}\n`);
  return relative(process.cwd(), file);
}
