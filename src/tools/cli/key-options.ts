/** The options that name one entry. */
import type { Variables } from "../inspection/asking.js";
import { CliError } from "./terminal.js";

export const KEY_OPTIONS = {
  args: { type: "string" },
  source: { type: "string" },
  context: { type: "string" },
  id: { type: "string" },
  private: { type: "string" },
} as const;

export const KEY_HELP = `  --args <json>              the arguments of the field, such as '{"id": 7}'
  --source <json>            the properties of the parent object in the key
  --context <json>           the properties of the context in the key
  --id <json>                the id of a loader's entry, such as 7 or '"7"'
  --private <identity>       the identity that owns a PRIVATE entry`;

/**
 * Returns the parts of the key that the options give, as variables; `types` are those of JSON and of ids. Throws `CliError`
 * for text that is no JSON.
 */
export function keyVariables(
  command: string,
  given: Readonly<Partial<Record<keyof typeof KEY_OPTIONS, string | undefined>>>,
  types: { readonly json: string; readonly id: string },
): Variables {
  const variables: Record<string, readonly [string, unknown]> = {};
  if (given.private !== undefined) variables.private = ["ID", given.private];
  for (const name of ["args", "source", "context", "id"] as const) {
    const text = given[name];
    if (text === undefined) continue;
    try {
      variables[name] = [name === "id" ? types.id : types.json, JSON.parse(text)];
    } catch {
      throw new CliError(
        `${command}: --${name}: expected JSON, such as ${name === "id" ? "7 or '\"7\"'" : `'{"id": 7}'`}, got text that cannot be parsed`,
      );
    }
  }
  return variables;
}
