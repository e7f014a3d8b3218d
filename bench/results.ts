import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import type { Row } from "./scenario.js";
import type { TargetResult } from "./table.js";

/** The saved results of a run. */
export interface Results {
  readonly date: string;
  readonly command: string;
  readonly seed: number;
  readonly machine: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly targetResults: readonly TargetResult[];
  readonly scenarios: Readonly<Record<string, readonly Row[]>>;
}

export const describeMachine = (): string =>
  `${cpus().length} x ${cpus()[0]?.model.trim() ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GB, ${process.platform} ${release()}`;

/** Returns the versions of everything that affects the results. */
export function readVersions(redisVersion: string): Record<string, string> {
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
 * Saves the results to `results/<date>.json`, with a suffix for quick runs and for single scenarios. Replaces
 * the file of an earlier run of the same kind and day. Returns the file name.
 */
export function saveResults(results: Results, kind: "full" | "quick" | "some"): string {
  const folder = fileURLToPath(new URL("./results/", import.meta.url));
  mkdirSync(folder, { recursive: true });
  const file = `${folder}${results.date.slice(0, 10)}${kind === "full" ? "" : `.${kind}`}.json`;
  writeFileSync(file, `${JSON.stringify(results, undefined, 1)}\n`);
  return file;
}
