import { CliError } from "./cli-error.js";

/** The options that name one entry, for `readArguments`. */
export const KEY_OPTIONS = {
  args: { type: "string" },
  source: { type: "string" },
  context: { type: "string" },
  id: { type: "string" },
  private: { type: "string" },
} as const;

/** Their help. */
export const KEY_HELP = `  --args <json>              the arguments of the field, such as '{"id": 7}'
  --source <json>            the properties of the parent object in the key
  --context <json>           the properties of the context in the key
  --id <json>                the id of a loader's entry, such as 7 or '"7"'
  --private <identity>       the identity that owns a PRIVATE entry`;

export interface KeyOptions {
  readonly args?: string | undefined;
  readonly source?: string | undefined;
  readonly context?: string | undefined;
  readonly id?: string | undefined;
  readonly private?: string | undefined;
}

/** Returns the parts of the key that the options give, as variables. Throws `CliError` for text that is no JSON. */
export function keyVariables(command: string, given: KeyOptions): Record<string, unknown> {
  const variables: Record<string, unknown> = given.private === undefined ? {} : { private: given.private };
  for (const name of ["args", "source", "context", "id"] as const) {
    const text = given[name];
    if (text === undefined) continue;
    try {
      variables[name] = JSON.parse(text);
    } catch {
      throw new CliError(
        `${command}: --${name}: expected JSON, such as ${name === "id" ? "7 or '\"7\"'" : `'{"id": 7}'`}, got text that cannot be parsed`,
      );
    }
  }
  return variables;
}

/** Returns variable definitions and arguments of a field for these variables. `types`: the type of each. */
export function asArguments(
  variables: Readonly<Record<string, unknown>>,
  types: Readonly<Record<string, string>>,
): { readonly definitions: string; readonly text: string } {
  const names = Object.keys(variables);
  return {
    definitions: names.map((name) => `$${name}: ${types[name]}`).join(", "),
    text: names.map((name) => `${name}: $${name}`).join(", "),
  };
}
