import { type ParseArgsConfig, parseArgs } from "node:util";
import { messageOf } from "../errors.js";
import { CliError } from "./cli-error.js";

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
