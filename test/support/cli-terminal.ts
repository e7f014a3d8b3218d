import { main } from "../../src/tools/cli/main.js";
import type { Terminal } from "../../src/tools/cli/terminal.js";

/** What a command has printed, and its exit code. */
export interface CliRun {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs the command line in this process. */
export async function runCli(argv: readonly string[], given: Partial<Terminal> = {}): Promise<CliRun> {
  const out: string[] = [];
  const err: string[] = [];
  const code = await main(argv, {
    print: (line) => out.push(line),
    complain: (line) => err.push(line),
    clear: () => out.push("(cleared)"),
    readInput: async () => "",
    env: {},
    isTty: false,
    sleep: async () => false,
    ...given,
  });
  return { code, out: out.join("\n"), err: err.join("\n") };
}
