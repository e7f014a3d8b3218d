import { checkOptionsObject, describeSetting, optionInvalid } from "./errors.js";
import { OPTIONS_OF } from "./option-owners.js";

/** Throws `CACHED_OPTION_INVALID` unless the options are an object with known names. */
export function checkOptionNames(
  options: unknown,
  caller: string,
  known: readonly string[],
  meanings: Meanings = {},
): asserts options is object {
  checkOptionsObject(options, caller);
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw optionInvalid(`${caller}: ${unknownName(unknown, { kind: "option", known, meanings })}`);
}

/** The options of a function by name, each with a test and with what it expects. */
export type OptionRules<Name extends string = string> = Readonly<
  Record<Name, readonly [isValid: (value: unknown) => boolean, expected: string]>
>;

/** Throws one `CACHED_OPTION_INVALID` with every mistake. Only `required` options must be there. */
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
    const known = Object.keys(rules);
    if (rule === undefined)
      return [`\`${name}\`: unknown option; known are ${known.join(", ")}${didYouMean(name, { known })}`];
    const [isValid, expected] = rule;
    if ((value === undefined && !required.includes(name)) || isValid(value)) return [];
    return [`\`${name}\`: expected ${expected}, got ${describeSetting(value)}`];
  });
  if (mistakes.length > 0) throw optionInvalid(`${caller}: ${mistakes.join("; ")}`);
}

/** What a name of another library means here, by the name in lower case without separators. */
export type Meanings = Readonly<Record<string, string>>;

interface KnownSpellings {
  readonly kind: string;
  readonly known: readonly string[];
  readonly meanings?: Meanings;
}

/** Returns the mistake, with the known names and the one that was probably meant. */
export function unknownName(name: string, names: KnownSpellings, place = name): string {
  const { kind, known } = names;
  const list = known.map((one) => `\`${one}\``).join(", ");
  return `\`${place}\`: unknown ${kind}; expected ${known.length === 0 ? "none" : `one of ${list}`}${didYouMean(name, names)}`;
}

export function didYouMean(name: string, { known, meanings = {} }: Omit<KnownSpellings, "kind">): string {
  const plain = plainOf(name);
  const meaning = Object.hasOwn(meanings, plain) ? meanings[plain] : undefined;
  const sameOf = known.find((one) => plainOf(one) === plain);
  // A name of many words is often remembered in part, as `timeoutMs` for `loadTimeoutMs`.
  const words = name.split(/(?=[A-Z])|_/).map((word) => word.toLowerCase());
  const part = known.filter((one) => plain.length > 3 && words.every((word) => one.toLowerCase().includes(word)));
  const owner = Object.keys(OPTIONS_OF).find((one) => OPTIONS_OF[one]?.split(" ").includes(name));
  if (meaning === undefined && sameOf === undefined && owner !== undefined) return `; it belongs in ${owner}`;
  const close = sameOf ?? closestTo(name, known) ?? (part.length === 1 ? part[0] : undefined);
  const meant = meaning ?? (close === undefined ? undefined : `\`${close}\``);
  return meant === undefined ? "" : `; did you mean ${meant}?`;
}

const plainOf = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");

/**
 * Returns the known name that `given` probably misspells: one with at most two letters more, less,
 * different or swapped, or one of them if either has up to four. Undefined if there is none.
 */
export function closestTo(given: string, known: Iterable<string>): string | undefined {
  let closest: { readonly name: string; readonly distance: number } | undefined;
  for (const name of known) {
    const limit = Math.min(given.length, name.length) <= 4 ? 1 : 2;
    if (Math.abs(name.length - given.length) > limit) continue;
    const distance = distanceOf(given.toLowerCase(), name.toLowerCase());
    if (distance <= limit && (closest === undefined || distance < closest.distance)) closest = { name, distance };
  }
  return closest?.name;
}

/** The number of letters that two words differ in, where two swapped neighbours count as one. */
function distanceOf(one: string, other: string): number {
  let before: readonly number[] = [];
  let last: readonly number[] = Array.from({ length: other.length + 1 }, (_, length) => length);
  for (let row = 1; row <= one.length; row++) {
    const current = [row];
    for (let column = 1; column <= other.length; column++) {
      const isSame = one[row - 1] === other[column - 1];
      const isSwapped =
        row > 1 && column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      current[column] = Math.min(
        (last[column] as number) + 1,
        (current[column - 1] as number) + 1,
        (last[column - 1] as number) + (isSame ? 0 : 1),
        isSwapped ? (before[column - 2] as number) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [before, last] = [last, current];
  }
  return last[other.length] as number;
}
