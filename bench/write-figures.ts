/**
 * Writes the figures of a run into README, docs and their charts, between the markers `<!-- figures <name> of <file> -->` and
 * `<!-- end of figures -->`. Run: npx tsx bench/write-figures.ts bench/results/2026-11-30.json
 *
 * Without an argument, the blocks are written anew from the files that they name.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { blocksOf, writeFigures } from "./figures.js";
import type { Report } from "./report.js";

const root = new URL("../", import.meta.url);
const read = (file: string): string => readFileSync(new URL(file, root), "utf8");
const [source] = process.argv.slice(2);
const filesIn = (folder: string, suffix: string): string[] =>
  readdirSync(new URL(folder, root))
    .filter((name) => name.endsWith(suffix))
    .map((name) => `${folder}/${name}`);
for (const page of ["README.md", "bench/README.md", ...filesIn("docs", ".md"), ...filesIn("docs/images", ".svg")]) {
  const text = read(page);
  if (blocksOf(text).length === 0) continue;
  const written = writeFigures(text, (file) => JSON.parse(read(file)) as Report, source);
  if (written !== text) writeFileSync(new URL(page, root), written);
  console.log(`${page}: ${written === text ? "unchanged" : "written"}`);
}
