import type { GraphQLSchema } from "graphql";
import { CachedError } from "../../base/errors.js";
import type { CacheParts } from "../../parts.js";
import type { PolicySettings } from "../../policy/policy.js";
import type { EntityTypes } from "../entities/entity-types.js";
import type { IdFields } from "../entities/id-fields.js";
import type { CacheControlHints } from "../hints/cache-control.js";
import { Outlines } from "../look-ahead/selection.js";
import { POLICIES } from "./apply-options.js";
import { reachableTypesOf } from "./type-graph.js";
import { ValueWriters } from "./value-types.js";
import type { Shapes } from "./variant.js";

export interface PolicyInputs {
  readonly schema: GraphQLSchema;
  readonly parts: CacheParts;
  readonly shapes: Shapes;
  readonly idFields: IdFields;
  readonly policies: ReadonlyMap<string, PolicySettings>;
  readonly hints?: CacheControlHints | undefined;
  readonly entities?: EntityTypes | undefined;
}

/** What the readers of the policies of one schema share, and what they have found to be wrong. */
export class SchemaReading {
  readonly argumentWriters: ValueWriters;
  readonly otherWriters: ValueWriters;
  readonly outlines: Outlines;
  readonly reachable: ReturnType<typeof reachableTypesOf>;
  readonly mistakes: CachedError[] = [];
  readonly warnings: string[] = [];
  /** The fields with settings of their own that only read a property of their parent. */
  readonly unresolved: string[] = [];
  readonly outside = new Set<string>();

  constructor(readonly inputs: PolicyInputs) {
    const { exact, byText } = inputs.parts.keys.writers;
    this.argumentWriters = new ValueWriters(exact);
    this.otherWriters = new ValueWriters(byText);
    this.outlines = new Outlines(exact);
    this.reachable = reachableTypesOf(inputs.schema);
  }

  /** Whether only mutations can reach a type: on another one, a read would invalidate. */
  isOfMutationsOnly({ name }: { readonly name: string }): boolean {
    const { mutations, others } = this.reachable;
    return mutations.has(name) && !others.has(name);
  }

  cachedAt(coordinate: string): Place {
    return { source: this.outside.has(coordinate) ? POLICIES : "@cached", coordinate };
  }

  refuse(
    { source, coordinate }: Place,
    given: string,
    code: "CACHED_POLICY_INVALID" | "CACHED_SCOPE_MISSING" = "CACHED_POLICY_INVALID",
  ): void {
    // A remedy must not name a directive that is not there.
    const text = this.outside.has(coordinate) ? given.replaceAll("`@cached`", "the policy") : given;
    this.mistakes.push(new CachedError(code, `${source} on \`${coordinate}\`: ${text}`, { coordinate }));
  }

  refuseCached(coordinate: string, text: string): void {
    this.refuse(this.cachedAt(coordinate), text);
  }

  warnOf(coordinate: string, text: string): void {
    this.warnings.push(`${this.cachedAt(coordinate).source} on \`${coordinate}\`: ${text}`);
  }

  /** Throws the mistakes, as `readPolicies` does, or warns of what is probably one. */
  report(): void {
    const { mistakes } = this;
    if (mistakes.length === 1) throw mistakes[0] as CachedError;
    if (mistakes.length > 1) {
      const list = mistakes.map(({ message, code }) => `- ${message} [${code}]`).join("\n");
      const mistake = `applyCached: found ${mistakes.length} mistakes in the schema:\n${list}`;
      throw new CachedError("CACHED_SCHEMA_INVALID", mistake, { cause: mistakes });
    }
    if (this.unresolved.length > 0)
      this.warnings.push(
        `@cached on fields without a resolver, which read a property of their parent, so that nothing is saved: ${this.unresolved.map((coordinate) => `\`${coordinate}\``).join(", ")}; give them a resolver, or cache the field that loads the parent; it is right if the property is a method, as with rootValue`,
      );
    for (const warning of this.warnings) this.inputs.parts.logger.warn(`graphql-cached: ${warning}`);
  }
}

/** Where something is said. Sources: a directive with its @, `extensions.cached`, or `policies`. */
export interface Place {
  readonly source: string;
  readonly coordinate: string;
}
