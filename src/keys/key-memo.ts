/** Longer inputs are not remembered. */
export const MAX_MEMO_LENGTH = 256;
/** The number of inputs after which the ones that were not used again are forgotten. */
const MAX_INPUTS = 2_000;

/**
 * Remembers what was made from the inputs of recent calls: the key of a call costs a canonical text and a
 * hash. Holds between one and two times `MAX_INPUTS`. The recency of single inputs is not tracked,
 * which would cost more than it saves.
 */
export class KeyMemo<Made> {
  #recent = new Map<string | number, Made>();
  #older = new Map<string | number, Made>();

  get(input: string | number): Made | undefined {
    const recent = this.#recent.get(input);
    if (recent !== undefined) return recent;
    const older = this.#older.get(input);
    if (older !== undefined) this.set(input, older);
    return older;
  }

  set(input: string | number, made: Made): void {
    if (this.#recent.size >= MAX_INPUTS) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(input, made);
  }

  clear(): void {
    this.#recent.clear();
    this.#older.clear();
  }
}

/**
 * Whether a value can be an input of a memo as it is. Objects can change, and -0 and 0 would be one
 * input.
 */
export const isMemoInput = (value: unknown): value is string | number =>
  typeof value === "string" ? value.length <= MAX_MEMO_LENGTH : typeof value === "number" && !Object.is(value, -0);

/**
 * Returns a value as part of the input of a memo: two values have the same text exactly if they are the
 * same, also as the beginning of a longer text. Undefined if the value is not remembered.
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
