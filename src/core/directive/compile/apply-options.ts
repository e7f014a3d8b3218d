/** Checks of the options of `applyCached`, shared by the features that have some. */
import { describeSetting, optionInvalid } from "../../base/errors.js";
import type { PolicySettings } from "../../policy/policy.js";

/** Where a policy of the option `policies` was written, in messages. */
export const POLICIES = "policies";

export type PoliciesOption = Readonly<Record<string, PolicySettings | undefined>>;

type Options = Readonly<Record<string, unknown>>;

const isRecord = (given: unknown): given is Options =>
  typeof given === "object" && given !== null && !Array.isArray(given);

export function refuseMistakes(...mistakes: readonly string[]): void {
  if (mistakes.length > 0) throw optionInvalid(`applyCached: ${mistakes.join("; ")}`);
}

export function recordOption(given: unknown, name: string, what: string, example: string): [string, unknown][] {
  if (given === undefined) return [];
  if (!isRecord(given))
    refuseMistakes(`\`${name}\`: expected an object of ${what}, such as ${example}, got ${describeSetting(given)}`);
  return Object.entries(given as Options);
}

/** Returns the options of a feature that is on for true or an object. Undefined: off. */
export function featureOption(given: unknown, name: string, known: readonly string[]): Options | undefined {
  if (given === undefined || given === false) return undefined;
  if (given === true) return {};
  if (!isRecord(given))
    refuseMistakes(`\`${name}\`: expected true, false or an object of options, got ${describeSetting(given)}`);
  const unknown = Object.keys(given as Options).find((option) => !known.includes(option));
  const expected = known.map((option) => `\`${option}\``).join(" or ");
  if (unknown !== undefined)
    refuseMistakes(
      `\`${name}.${unknown}\`: unknown option; ${known.length === 1 ? "the only one is" : "expected"} ${expected}`,
    );
  return given as Options;
}

/** What is wrong with a policy in it is found where those of directives are read. */
export function resolvePolicies(given: unknown): ReadonlyMap<string, PolicySettings> {
  const entries = recordOption(given, POLICIES, "policies by coordinate", '{ "Query.movie": { maxAge: 60 } }');
  return new Map(entries.filter(([, policy]) => policy !== undefined) as [string, PolicySettings][]);
}
