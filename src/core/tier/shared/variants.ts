import type { Subject, Variant } from "../../keys/key.js";

/** The variants by coordinate or loader name: several if schemas with other shapes were applied. */
export class Variants {
  readonly #declared = new Map<string, Map<string, Variant>>();

  declare(coordinate: string, variant: Variant): void {
    const declared = this.#declared.get(coordinate) ?? new Map<string, Variant>();
    this.#declared.set(coordinate, declared.set(variant.id, variant));
  }

  /** Returns the variants of a coordinate, in the order in which they were first declared. */
  declared(coordinate: string): readonly Variant[] {
    return [...(this.#declared.get(coordinate)?.values() ?? [])];
  }

  /** Returns whether a coordinate has keys in another form than `form`. */
  hasOtherForm(coordinate: string, form: Subject): boolean {
    for (const variant of this.#declared.get(coordinate)?.values() ?? []) if (variant.form !== form) return true;
    return false;
  }
}

export type { Variant } from "../../keys/key.js";
