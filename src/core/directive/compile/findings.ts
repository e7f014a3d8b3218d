import type { GraphQLSchema } from "graphql";
import { CachedError } from "../../base/errors.js";
import type { CacheParts } from "../../parts.js";
import type { PolicySettings } from "../../policy/policy.js";
import type { EntityTypes } from "../entities/entity-types.js";
import type { IdFields } from "../entities/id-fields.js";
import type { CacheControlHints } from "../hints/cache-control.js";
import { POLICIES } from "./apply-options.js";
import type { Shapes } from "./shape.js";

export class Findings {
  readonly mistakes: CachedError[] = [];
  readonly doubts: Doubt[] = [];
  readonly unusedTypes: Place[] = [];
  /** The fields with settings of their own that only read a property of their parent. */
  readonly unresolved: string[] = [];
  /** The coordinates with a policy in `policies` alone. */
  readonly outside = new Set<string>();

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
}

export interface PolicyInputs {
  readonly schema: GraphQLSchema;
  readonly parts: CacheParts;
  readonly shapes: Shapes;
  readonly idFields: IdFields;
  readonly policies: ReadonlyMap<string, PolicySettings>;
  readonly hints?: CacheControlHints | undefined;
  readonly entities?: EntityTypes | undefined;
}

/** Where something is said: a directive's name with its @, `extensions.cached`, or `policies`; and the coordinate. */
export interface Place {
  readonly source: string;
  readonly coordinate: string;
}

export interface Doubt extends Place {
  readonly doubt: string;
}
