import { type GraphQLNamedType, type GraphQLObjectType, type GraphQLSchema, getNamedType } from "graphql";
import { getOrMake } from "../base/multimap.js";
import { directivesAt } from "../directive/compile/directives.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { isStitched } from "../directive/compile/own-resolver.js";
import { objectsOf } from "../directive/compile/type-graph.js";
import { hasPublicHint, hintOf, isPrivateType } from "../directive/hints/cache-control.js";
import { authMarkOf } from "../directive/permissions/auth-marks.js";
import type { CacheParts } from "../parts.js";
import { mergeSettings, type PolicySettings } from "../policy/policy.js";
import type { FieldRule } from "../schema-rules.js";

interface FieldFacts {
  readonly coordinate: string;
  readonly rule: FieldRule | undefined;
  readonly hintedMaxAge: number | undefined;
  readonly inheritsHint: boolean;
  /** Whether its own policy has `maxAge: 0`. */
  readonly isUncacheable: boolean;
  readonly isPrivate: boolean;
  /**
   * Whether an auth mark covers it, or its resolver was wrapped after applyCached; and it does not
   * declare itself that it is PUBLIC.
   */
  readonly isCovered: boolean;
  /** Whether it says itself that all callers get the same. */
  readonly isMarkedPublic: boolean;
  readonly hasResolver: boolean;
  readonly returned: GraphQLNamedType;
}

/** What a schema says about its fields. Each is looked at once. */
export class SchemaFacts {
  readonly #schema: GraphQLSchema;
  readonly #parts: CacheParts;
  readonly #fields = new Map<string, FieldFacts>();
  #hasWarned = false;

  constructor(schema: GraphQLSchema, parts: CacheParts) {
    this.#schema = schema;
    this.#parts = parts;
  }

  of(parent: GraphQLObjectType, field: AnyField): FieldFacts {
    const coordinate = `${parent.name}.${field.name}`;
    return getOrMake(this.#fields, coordinate, () => this.#read(coordinate, parent, field));
  }

  #read(coordinate: string, parent: GraphQLObjectType, field: AnyField): FieldFacts {
    const rule = this.#parts.rules.fields.get(coordinate);
    const { maxAge, scope, inheritMaxAge } = hintOf(field);
    // Only without a rule: what made it a rule says the rest.
    const declared = rule === undefined ? this.#declaredAt(coordinate, field) : {};
    const saysPublic = hasPublicHint(field, { scope: "PUBLIC" });
    const returned = getNamedType(field.type);
    // Apollo's rules know the hints of neither, which are for whom a value is kept all the same.
    const concerned = [
      ...(parent === this.#schema.getQueryType() ? [parent] : []),
      ...objectsOf(this.#schema, returned),
    ];
    return {
      coordinate,
      rule,
      hintedMaxAge: maxAge,
      inheritsHint: inheritMaxAge === true,
      isUncacheable: declared.maxAge === 0,
      isPrivate:
        [scope, rule?.policy.scope, declared.scope].includes("PRIVATE") ||
        (!saysPublic && concerned.some(isPrivateType)),
      // A check around the resolver of a cached field runs on every hit of the field, and on none
      // of what contains it.
      isCovered:
        !saysPublic && (authMarkOf(this.#schema, parent, field) !== undefined || this.#isWrapped(coordinate, field)),
      isMarkedPublic: rule?.policy.isDeclaredPublic === true || scope === "PUBLIC",
      // A method of an instance is a resolver.
      hasResolver: this.#parts.hasValueTypes || this.#parts.resolvers.has(field),
      returned,
    };
  }

  /** The resolvers of a stitched schema ask those of `applyCached`. */
  #isWrapped(coordinate: string, field: AnyField): boolean {
    if (isStitched(this.#schema) || !this.#parts.resolvers.isWrapped(coordinate, field)) return false;
    if (!this.#hasWarned)
      this.#parts.onceLog.warn(
        `graphql-cached: the resolver of \`${coordinate}\`, and maybe others, was wrapped after applyCached; a hit of a whole response does not call it, so responses with such fields belong to one caller; write @cacheControl(scope: PUBLIC) on those that check no permission`,
      );
    this.#hasWarned = true;
    return true;
  }

  /** Returns the policy of a field itself. With `maxAge: 0`, it makes no rule. */
  #declaredAt(coordinate: string, field: AnyField): PolicySettings {
    const { policies } = this.#parts.rules;
    const { cached } = field.extensions as { readonly cached?: PolicySettings };
    return mergeSettings(policies.get(coordinate), ...directivesAt(this.#schema, field, "cached"), cached);
  }
}
