import type { GraphQLArgument } from "graphql";
import type { ValueWriter } from "./keys/canonical.js";
import type { Variant } from "./keys/key.js";
import type { Path } from "./keys/path.js";
import type { TagTemplate } from "./keys/tag-template.js";
import type { Policy } from "./policy/policy.js";

/** One part of a key, with the writer of what it leads to, which is made when the schema is applied. */
export interface KeyPath extends Path {
  readonly write: ValueWriter;
}

/** Everything known about one cached field once the schema is built. */
export interface FieldRule {
  readonly coordinate: string;
  readonly policy: Policy;
  readonly variant: Variant;
  readonly isRoot: boolean;
  /** The parts of the key, those of the default key included. */
  readonly keyPaths: readonly KeyPath[];
  readonly tags: readonly TagTemplate[];
  readonly args: readonly GraphQLArgument[];
}

/** What schemas declare about caching, by coordinate. */
export interface SchemaRules {
  readonly fields: ReadonlyMap<string, FieldRule>;
  /** The tags that mutation fields invalidate. */
  readonly invalidations: ReadonlyMap<string, readonly TagTemplate[]>;
}

/** The rules of every schema that was applied with a cache. */
export class AppliedRules implements SchemaRules {
  readonly fields = new Map<string, FieldRule>();
  readonly invalidations = new Map<string, readonly TagTemplate[]>();

  #schemas = 0;

  /** Whether no schema has been applied. */
  get isEmpty(): boolean {
    return this.#schemas === 0;
  }

  add({ fields, invalidations }: SchemaRules): void {
    this.#schemas++;
    for (const [coordinate, rule] of fields) this.fields.set(coordinate, rule);
    for (const [coordinate, tags] of invalidations) this.invalidations.set(coordinate, tags);
  }
}
