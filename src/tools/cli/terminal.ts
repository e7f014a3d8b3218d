import { styleText } from "node:util";
import { escapedControl, withoutControls } from "../../core/base/errors.js";

/** A reason for which a command cannot do its work: exit code 2. The message is for the user and names the remedy. */
export class CliError extends Error {
  override readonly name = "CliError";
}

/** What a command writes to and reads from. */
export interface Terminal {
  print(line: string): void;
  /** Writes a line to standard error. */
  complain(line: string): void;
  clear(): void;
  readInput(): Promise<string>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether standard output is a terminal, which can be cleared. */
  readonly isTty: boolean;
  /** The width of that terminal. */
  readonly columns?: number | undefined;
  /** Resolves after a time, or at once when the user ends the program. Returns whether to go on. */
  sleep(ms: number): Promise<boolean>;
}

/** The width of all output but JSON, and that of a terminal which shows a page. */
export const WIDTH = 80;

/** Colours a text. */
export type Paint = (color: "bold" | "green" | "yellow" | "red" | "cyan", text: string) => string;

/** Returns what colours text, or leaves it as it is: FORCE_COLOR, NO_COLOR and TERM decide as they do in Node.js, in this order. */
export function painter({ env: { FORCE_COLOR, NO_COLOR = "", TERM }, isTty }: Terminal): Paint {
  const isWanted =
    FORCE_COLOR === undefined ? NO_COLOR === "" && isTty && TERM !== "dumb" : /^(|[123]|true)$/.test(FORCE_COLOR);
  // Whether this process has a terminal was decided above.
  return (color, text) => (isWanted && text.trim() !== "" ? styleText(color, text, { validateStream: false }) : text);
}

/** Returns text of files and servers without control characters, which a terminal would obey. */
export const printable = (text: string): string => withoutControls(text, () => "�");

/** Returns a value as JSON, with all control characters escaped: `JSON.stringify` leaves those above U+001F as they are. */
export const jsonText = (value: unknown, indent?: number): string =>
  JSON.stringify(value, undefined, indent)
    .split("\n")
    .map((line) => withoutControls(line, escapedControl))
    .join("\n");

/** Returns paragraphs broken at spaces into lines of at most `width`, the first with `indent`, the others with `hanging`. */
export function wrap(text: string, indent = "", hanging = indent, width = WIDTH): string[] {
  const lines: string[] = [];
  const [first = "", ...words] = text.split(/\s+/);
  let line = indent + first;
  for (const word of words)
    if (line.length + 1 + word.length > width) {
      lines.push(line);
      line = hanging + word;
    } else line += ` ${word}`;
  return [...lines, line];
}

/** Returns the lines of rows with names before their texts. */
export const wrapRows = (rows: readonly (readonly [name: string, text: string])[], nameWidth: number): string[] =>
  rows.flatMap(([name, text]) => wrap(printable(text), `  ${name.padEnd(nameWidth)}`, " ".repeat(nameWidth + 2)));

export const noteLines = (notes: readonly string[], width = WIDTH): string[] =>
  notes.flatMap((note) => wrap(printable(`Note: ${note}`), "", "  ", width));

/** Returns `text` cut or padded to a width; numbers are aligned to the right. */
export function cell(value: string | number, width: number): string {
  const text = printable(String(value));
  const cut = text.length > width ? `${text.slice(0, width - 1)}…` : text;
  return typeof value === "number" ? cut.padStart(width) : cut.padEnd(width);
}

/** Returns a count in at most six characters, such as 12345 or 1.2M. */
export function compact(count: number): string {
  if (count < 100_000) return String(Math.round(count));
  const [divisor, unit] = count < 1e6 ? [1e3, "k"] : count < 1e9 ? [1e6, "M"] : [1e9, "G"];
  const scaled = count / divisor;
  return `${scaled.toFixed(scaled < 10 ? 1 : 0)}${unit}`;
}

/** Returns a duration with a unit, such as 850 ms, 12 s or 3 h. */
export function duration(ms: number): string {
  const sign = ms < 0 ? "-" : "";
  const size = Math.abs(ms);
  if (size < 1_000) return `${sign}${Math.round(size * 10) / 10} ms`;
  if (size < 120_000) return `${sign}${Math.round(size / 100) / 10} s`;
  return size < 7_200_000 ? `${sign}${Math.round(size / 60_000)} min` : `${sign}${Math.round(size / 3_600_000)} h`;
}

/** Returns a ratio from 0 to 1 as a percentage, rounded down so that only all of it is 100 %. */
export const percent = (ratio: number): string => `${Math.floor(ratio * 100)}%`;

/** Returns a number with its noun, such as 2 fields. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
