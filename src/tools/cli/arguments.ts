import { type ParseArgsConfig, parseArgs } from "node:util";
import { messageOf } from "../../core/base/errors.js";
import { CliError } from "./cli-error.js";
import { printable } from "./terminal.js";

type Options = NonNullable<ParseArgsConfig["options"]>;

/** The options of every command. */
const COMMON = { help: { type: "boolean", short: "h" }, json: { type: "boolean" } } as const;

/** The arguments of a command with the options `Given`. */
export type Arguments<Given extends Options> = ReturnType<
  typeof parseArgs<{ args: string[]; options: Given & typeof COMMON; allowPositionals: true }>
>;

/** Parses the arguments of a command. Throws `CliError` for unknown options. */
export function readArguments<const Given extends Options>(
  command: string,
  argv: readonly string[],
  options: Given,
): Arguments<Given> {
  try {
    return parseArgs({ args: [...argv], options: { ...options, ...COMMON }, allowPositionals: true });
  } catch (error) {
    const [reason = ""] = messageOf(error).split(/\. (?=To|Did)/);
    throw new CliError(`${command}: ${reason}; see graphql-cached ${command} --help`);
  }
}

/** The numbers that an option of a command takes. */
interface NumberRange {
  readonly from: number;
  readonly to: number;
  /** Such as "seconds"; undefined for a count, which is an integer. */
  readonly unit?: string;
}

/** Reads the number that is given for an option. Throws `CliError` if it is none, or out of range. */
export function readNumber(command: string, option: string, given: string, { from, to, unit }: NumberRange): number {
  const number = given.trim() === "" ? Number.NaN : Number(given);
  if (number >= from && number <= to && (unit !== undefined || Number.isInteger(number))) return number;
  const kind = unit === undefined ? "an integer" : `a number of ${unit}`;
  throw new CliError(`${command}: ${option}: expected ${kind} from ${from} to ${to}, got ${printable(given)}`);
}
