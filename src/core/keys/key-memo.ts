/** Longer inputs are not remembered. */
const MAX_MEMO_LENGTH = 256;
/** The number of inputs in all memos of a cache at which all of them are emptied. */
const MAX_INPUTS = 50_000;

/**
 * Bounds the memos of one cache. Each is a Map from the inputs of recent calls to the names that were made from them: a
 * name costs a canonical text and a hash.
 */
export class KeyMemos {
  /** Those that were not emptied since. Others are not kept in memory. */
  readonly #filled = new Set<Map<string, unknown>>();
  #count = 0;

  /** Remembers in `memo` what was made from `input`, unless that is too long. */
  set<Made>(memo: Map<string, Made>, input: string, made: Made): void {
    if (input.length > MAX_MEMO_LENGTH) return;
    if (this.#count >= MAX_INPUTS) {
      for (const filled of this.#filled) filled.clear();
      this.#filled.clear();
      this.#count = 0;
    }
    if (!memo.has(input)) this.#count++;
    this.#filled.add(memo);
    memo.set(input, made);
  }
}

/**
 * Returns a value as part of the input of a memo: two values have the same text exactly if they are the
 * same, also as the beginning of a longer text. Undefined if the value is not remembered: objects can change.
 */
export function memoText(value: unknown): string | undefined {
  switch (typeof value) {
    case "string":
      return value.length <= MAX_MEMO_LENGTH ? `${value.length}:${value}` : undefined;
    case "number":
      return Object.is(value, -0) ? undefined : `n${value},`;
    case "boolean":
      return value ? "T" : "F";
    case "undefined":
      return "U";
    case "object":
      return value === null ? "N" : undefined;
    default:
      return undefined;
  }
}
