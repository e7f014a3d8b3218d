/** What a command writes to and reads from. */
export interface Terminal {
  /** Writes a line to standard output. */
  print(line: string): void;
  /** Writes a line to standard error. */
  complain(line: string): void;
  /** Reads standard input to its end. */
  readInput(): Promise<string>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether standard output is a terminal, which can be cleared. */
  readonly isTty: boolean;
  /** Aborts when the user ends the program. */
  readonly signal: AbortSignal;
}

/** The width of all output but JSON. */
export const WIDTH = 80;

/** Returns text of files and servers without control characters, which a terminal would obey. */
export const printable = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, "�");

/** Returns paragraphs broken at spaces into lines of at most `WIDTH`, the first with `indent`, the others with `hanging`. */
export function wrap(text: string, indent = "", hanging = indent): string[] {
  const lines: string[] = [];
  let line = indent;
  let isEmpty = true;
  for (const word of text.split(/\s+/)) {
    if (!isEmpty && line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = hanging;
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line];
}
