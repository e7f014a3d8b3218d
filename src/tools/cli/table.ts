import { cell, type Paint } from "./terminal.js";

/** Returns a table in the width of the terminal. The names get what the columns leave, and no more than they need. */
export function tableOf<Row>(
  title: string,
  rows: readonly (readonly [name: string, row: Row])[],
  given: readonly Column<Row>[],
  { width, paint }: Look,
): string[] {
  let columns = [...given];
  const left = (): number => width - columns.reduce((sum, column) => sum + 1 + column.width, 0);
  while (left() < MIN_NAME_WIDTH) {
    const rank = Math.max(...columns.map((column) => column.rank ?? 0));
    if (rank === 0) break;
    columns = columns.filter((column) => column.rank !== rank);
  }
  const longest = Math.max(NAME_WIDTH, ...rows.map(([name]) => name.length));
  const nameWidth = Math.max(1, Math.min(left(), longest));
  const aligned = (text: string, { width: size, isText = false }: Column<Row>): string =>
    isText ? cell(text, size) : cell(text, text.length).padStart(size);
  return [
    paint("bold", [cell(title, nameWidth), ...columns.map((one) => aligned(one.title, one))].join(" ").trimEnd()),
    ...rows.map(([name, row]) => {
      const cells = columns.map((column) => {
        const color = column.colorOf?.(row);
        const text = aligned(column.textOf(row), column);
        return color === undefined ? text : paint(color, text);
      });
      return [cell(name, nameWidth), ...cells].join(" ").trimEnd();
    }),
  ];
}

export interface Look {
  readonly width: number;
  readonly paint: Paint;
}

/** A column of a table behind the names of its rows. */
export interface Column<Row> {
  readonly title: string;
  readonly width: number;
  /** Numbers are aligned to the right. */
  readonly isText?: boolean;
  /** Which columns a narrow terminal goes without: those with the highest number first. Default: it is always there. */
  readonly rank?: number;
  textOf(row: Row): string;
  colorOf?(row: Row): Parameters<Paint>[0] | undefined;
}

export const NAME_WIDTH = 34;
const MIN_NAME_WIDTH = 20;
