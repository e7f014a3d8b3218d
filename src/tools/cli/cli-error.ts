/** A reason for which a command cannot do its work: exit code 2. The message is for the user and names the remedy. */
export class CliError extends Error {
  override readonly name = "CliError";
}
