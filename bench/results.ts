import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import type { Row } from "./scenario.js";
import type { Freshness } from "./table.js";

/** Everything that a run has to say, as it is kept. */
export interface Results {
  readonly date: string;
  readonly command: string;
  readonly seed: number;
  readonly machine: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly freshnesses: readonly Freshness[];
  readonly scenarios: Readonly<Record<string, readonly Row[]>>;
}

export const machine = (): string =>
  `${cpus().length} x ${cpus()[0]?.model.trim() ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GB, ${process.platform} ${release()}`;

/** What was measured, and on what. */
export function versions(redisVersion: string): Record<string, string> {
  const read = (file: string): { version: string; dependencies?: Record<string, string> } =>
    JSON.parse(readFileSync(new URL(file, import.meta.url), "utf8"));
  const installed = Object.keys(read("./package.json").dependencies ?? {}).map((name) => [
    name,
    read(`./node_modules/${name}/package.json`).version,
  ]);
  const own = read("../package.json").version;
  return { "graphql-cached": own, ...Object.fromEntries(installed), redis: redisVersion, node: process.versions.node };
}

/**
 * Keeps the results as `results/<date>.json`, those of a quick run and of single scenarios apart; a later run of the same day in place of an
 * earlier one of its kind. Answers the file's name.
 */
export function keep(results: Results, kind: "full" | "quick" | "some"): string {
  const folder = fileURLToPath(new URL("./results/", import.meta.url));
  mkdirSync(folder, { recursive: true });
  const file = `${folder}${results.date.slice(0, 10)}${kind === "full" ? "" : `.${kind}`}.json`;
  writeFileSync(file, `${JSON.stringify(results, undefined, 1)}\n`);
  return file;
}
