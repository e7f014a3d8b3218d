import { messageOf } from "../../core/base/errors.js";
import { VERSION } from "../../core/base/version.js";
import { check } from "./check.js";
import type { Command } from "./command.js";
import { entry } from "./entry.js";
import { fields } from "./fields.js";
import { invalidate } from "./invalidate.js";
import { CliError, jsonText, printable, type Terminal, wrap } from "./terminal.js";
import { top } from "./top.js";
import { watch } from "./watch.js";

/** Runs the command line. Returns the exit code: 0 for success, 1 for findings, 2 if a command cannot do its work. */
export async function main(argv: readonly string[], terminal: Terminal): Promise<number> {
  const [name = "", ...rest] = argv;
  const shown = ["--help", "-h", "help"].includes(name) ? HELP : name === "--version" ? VERSION : undefined;
  if (shown !== undefined) {
    terminal.print(shown);
    return 0;
  }
  try {
    const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
    if (command === undefined)
      throw new CliError(
        `expected a command, one of ${Object.keys(COMMANDS).join(", ")}, got ${name === "" ? "none" : printable(name)}; see graphql-cached --help`,
      );
    return await command(rest, terminal);
  } catch (error) {
    // Anything but a CliError is a mistake in this program, which the stack helps to find.
    const stack = error instanceof Error && !(error instanceof CliError) ? error.stack : undefined;
    const message = stack ?? messageOf(error);
    if (rest.includes("--json")) terminal.print(jsonText({ error: message }));
    for (const line of wrap(`graphql-cached: ${printable(message)}`, "", "  ")) terminal.complain(line);
    return 2;
  }
}

const COMMANDS: Readonly<Record<string, Command>> = { check, fields, top, entry, invalidate, watch };

const HELP = `Usage: graphql-cached <command> [options]

Commands:
  check <file>...         find mistakes in the caching policies of a schema
  fields [<coordinate>...] cached fields with policy, key, tags and mode
  top                     fields, hot keys and processes, refreshed
  entry <coordinate>      the entry of one key, and why it is not served
  invalidate <coordinate> one entry, a whole field, a tag, or everything
  watch                   events and invalidations as they happen

graphql-cached <command> --help says more about a command, and
graphql-cached --version which release this is.`;
