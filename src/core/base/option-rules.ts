import { checkOptionsObject, describeSetting, optionInvalid } from "./errors.js";
import { unknownOption } from "./option-names.js";

/** The options of a function by name, each with a test and with what it expects. */
export type OptionRules<Name extends string = string> = Readonly<
  Record<Name, readonly [isValid: (value: unknown) => boolean, expected: string]>
>;

/**
 * Throws one `CACHED_OPTION_INVALID` with every mistake in `options`. Those that are not `required`
 * can be undefined.
 */
export function checkOptionRules(
  options: unknown,
  caller: string,
  rules: OptionRules,
  required: readonly string[] = [],
): void {
  checkOptionsObject(options, caller);
  const given = { ...Object.fromEntries(required.map((name) => [name, undefined])), ...options };
  const mistakes = Object.entries(given).flatMap(([name, value]: [string, unknown]): string[] => {
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    if (rule === undefined) return [unknownOption(name, Object.keys(rules))];
    const [isValid, expected] = rule;
    if ((value === undefined && !required.includes(name)) || isValid(value)) return [];
    return [`\`${name}\`: expected ${expected}, got ${describeSetting(value)}`];
  });
  if (mistakes.length > 0) throw optionInvalid(`${caller}: ${mistakes.join("; ")}`);
}

export const isName = (value: unknown): boolean => typeof value === "string" && value !== "";

export const hasMethod = (value: unknown, method: string): boolean =>
  typeof (value as Readonly<Record<string, unknown>> | null | undefined)?.[method] === "function";
