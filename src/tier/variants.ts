import type { Variant } from "../keys/key.js";
import type { DeclaredVariant } from "./control-content.js";

export type { Variant } from "../keys/key.js";

/**
 * The variants of this process, by coordinate or loader name. A coordinate has several if schemas
 * with different shapes were applied.
 */
export class Variants {
  readonly #declared = new Map<string, Map<string, DeclaredVariant>>();
  #count = 0;

  /** The number of variants so far. It only grows. */
  get count(): number {
    return this.#count;
  }

  /** `lifeMs` is the longest life of an entry; undefined: entries may last for ever. */
  declare(coordinate: string, { id, keyForm }: Variant, lifeMs: number | undefined): void {
    const known = this.#declared.get(coordinate) ?? new Map<string, DeclaredVariant>();
    const before = known.get(id);
    if (before === undefined) this.#count++;
    const longestMs = before === undefined ? lifeMs : longer(before.lifeMs, lifeMs);
    this.#declared.set(coordinate, known.set(id, { coordinate, id, keyForm, lifeMs: longestMs }));
  }

  /** Returns the variants of a coordinate, in the order in which they were first declared. */
  declared(coordinate: string): readonly DeclaredVariant[] {
    return [...(this.#declared.get(coordinate)?.values() ?? [])];
  }

  /** Returns all variants of this process. */
  all(): readonly DeclaredVariant[] {
    return [...this.#declared.values()].flatMap((variants) => [...variants.values()]);
  }
}

const longer = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined || other === undefined ? undefined : Math.max(one, other);
