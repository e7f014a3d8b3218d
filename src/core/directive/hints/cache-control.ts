import {
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isCompositeType,
  isInterfaceType,
  Kind,
} from "graphql";
import { describeSetting } from "../../base/errors.js";
import type { CacheParts } from "../../parts.js";
import type { PolicySettings } from "../../policy/policy.js";
import { featureOption, refuseMistakes } from "../compile/apply-options.js";
import { type Annotated, directivesNamed } from "../compile/directives.js";
import type { AnyField } from "../compile/field-rule.js";
import { hasOwnResolver } from "../compile/own-resolver.js";
import { objectsOf } from "../compile/type-graph.js";
import type { IdFields } from "../entities/id-fields.js";

/** Undefined if hints are not used. */
export function resolveCacheControl(given: unknown): Required<CacheControlOptions> | undefined {
  const options = featureOption(given, "cacheControl", ["fields", "defaultMaxAge"]);
  if (options === undefined) return undefined;
  const { fields = "ROOT", defaultMaxAge = 0 } = options as CacheControlOptions;
  if (fields !== "ROOT" && fields !== "ALL")
    refuseMistakes(`\`cacheControl.fields\`: expected "ROOT" or "ALL", got ${describeSetting(fields)}`);
  if (!Number.isInteger(defaultMaxAge) || defaultMaxAge < 0)
    refuseMistakes(
      `\`cacheControl.defaultMaxAge\`: expected an integer of at least 0 (seconds), got ${describeSetting(defaultMaxAge)}`,
    );
  return { fields, defaultMaxAge };
}

/** How `applyCached` uses the hints that a schema has for Apollo's response cache. */
export interface CacheControlOptions {
  /**
   * Which fields with a hint are cached. `ROOT`: those of the query type. `ALL`: also fields of
   * other types that have a resolver of their own; it must depend on nothing of the parent but its
   * `id`. Default: `ROOT`.
   */
  readonly fields?: "ROOT" | "ALL" | undefined;
  /**
   * The `maxAge` in seconds of root fields, and of fields that return types with fields, if they
   * have no hint: what Apollo's cache control plugin is passed under this name. Default: 0.
   */
  readonly defaultMaxAge?: number | undefined;
}

/** What `@cacheControl` says at one place. Undefined properties are not set. */
export interface Hint {
  readonly maxAge?: number | undefined;
  readonly scope?: "PUBLIC" | "PRIVATE" | undefined;
  readonly inheritMaxAge?: boolean | undefined;
}

/** `unhinted`: the coordinate of the field without a hint that limits it to the default. */
interface Limit {
  maxAge: number;
  unhinted: string | undefined;
  isPrivate: boolean;
}

/**
 * The policies that follow from `@cacheControl` by the rules of Apollo's cache control plugin. The
 * hint of a field overrides that of the type it returns. Without one, root fields and fields that
 * return types with fields have the default `maxAge`; others, and those with `inheritMaxAge`, that
 * of their parent.
 *
 * The value of a field contains what its subfields without a resolver return, whatever a query
 * selects. So its policy is the narrowest of theirs.
 */
export class CacheControlHints {
  readonly #reports: string[] = [];

  constructor(
    private readonly schema: GraphQLSchema,
    private readonly settings: Required<CacheControlOptions>,
    private readonly idFields: IdFields,
  ) {}

  /** Undefined if the hints of a field make no policy. `isExplicit`: whether it has `@cached`. */
  policyOf(parent: GraphQLObjectType, field: AnyField, isExplicit: boolean): PolicySettings | undefined {
    const coordinate = `${parent.name}.${field.name}`;
    const isRoot = parent === this.schema.getQueryType();
    if (!isRoot && !hasOwnResolver(field)) return undefined;
    const { maxAge, inheritMaxAge, ...hinted } = hintOf(field);
    const scope = hasPrivateHint(this.schema, parent, field) ? "PRIVATE" : hinted.scope;
    const isHinted = maxAge !== undefined || inheritMaxAge === true;
    const own = maxAge ?? (isRoot ? this.settings.defaultMaxAge : inheritMaxAge === true ? undefined : 0);
    const scopeAlone = isExplicit && scope !== undefined ? { scope } : undefined;
    if (own === 0) return scopeAlone;
    const obstacle = isExplicit || isRoot ? undefined : this.#obstacle(parent, field, own);
    if (obstacle !== undefined) this.#reports.push(`\`${coordinate}\`: ${obstacle}`);
    if (obstacle !== undefined || own === undefined) return scopeAlone;
    const limit: Limit = { maxAge: own, unhinted: undefined, isPrivate: scope === "PRIVATE" };
    this.#narrow(getNamedType(field.type), limit, new Set());
    if (limit.maxAge === 0 && !isExplicit && isHinted)
      this.#reports.push(
        `\`${coordinate}\`: its value contains ${
          limit.unhinted === undefined
            ? "a field with maxAge: 0"
            : `\`${limit.unhinted}\`, which has no hint; add @cacheControl(inheritMaxAge: true) to that field`
        }, or add @cached to \`${coordinate}\``,
      );
    const narrowed = limit.isPrivate ? "PRIVATE" : scope;
    const policy = narrowed === undefined ? {} : { scope: narrowed };
    if (limit.maxAge > 0) return { ...policy, maxAge: limit.maxAge };
    return isExplicit && narrowed !== undefined ? policy : undefined;
  }

  #obstacle(parent: GraphQLObjectType, field: AnyField, own: number | undefined): string | undefined {
    if (this.settings.fields === "ROOT")
      return 'it is not a field of the query type; pass cacheControl: { fields: "ALL" } if the resolvers of such fields depend on nothing of the parent but its `id`, or add @cached';
    if (own === undefined)
      return "`inheritMaxAge` of a field with a resolver: its parents differ from query to query; write the maxAge";
    if (this.idFields.in(parent) === undefined)
      return `\`${parent.name}\` has no field \`id\`; add @cached(key: […]) with what identifies the parent of \`${field.name}\``;
    return undefined;
  }

  #narrow(type: GraphQLNamedType, limit: Limit, visited: Set<GraphQLNamedType>): void {
    if (!isCompositeType(type) || visited.has(type)) return;
    visited.add(type);
    if (isAbstractType(type)) {
      for (const object of this.schema.getPossibleTypes(type)) this.#narrow(object, limit, visited);
      return;
    }
    for (const field of Object.values(type.getFields())) {
      if (hasOwnResolver(field)) continue;
      const { maxAge, inheritMaxAge } = hintOf(field);
      const returned = getNamedType(field.type);
      const isUnhinted = maxAge === undefined && isCompositeType(returned) && inheritMaxAge !== true;
      const own = isUnhinted ? this.settings.defaultMaxAge : maxAge;
      if (own !== undefined && own < limit.maxAge) {
        limit.maxAge = own;
        limit.unhinted = isUnhinted ? `${type.name}.${field.name}` : undefined;
      }
      limit.isPrivate ||= hasPrivateHint(this.schema, type, field);
      this.#narrow(returned, limit, visited);
    }
  }

  report({ logger }: Pick<CacheParts, "logger">): void {
    for (const type of Object.values(this.schema.getTypeMap()).filter(isInterfaceType))
      for (const field of Object.values(type.getFields()))
        if (directivesNamed(field, "cacheControl").length > 0)
          this.#reports.push(
            `\`${type.name}.${field.name}\`: hints on fields of interfaces have no effect, with Apollo either; put them on the fields of the object types`,
          );
    const reports = this.#reports;
    if (reports.length > 0)
      logger.warn(
        `graphql-cached: applyCached: ${reports.length} ${reports.length === 1 ? "hint" : "hints"} of @cacheControl without effect on the cache:\n${reports.map((report) => `- ${report}`).join("\n")}`,
      );
  }
}

export function hintOf(field: AnyField): Hint {
  const returned = getNamedType(field.type);
  const ofType: Hint = isCompositeType(returned) ? hintAt(returned) : {};
  const ofField = hintAt(field);
  const maxAge = ofField.maxAge ?? ofType.maxAge;
  return {
    maxAge,
    scope: ofField.scope ?? ofType.scope,
    inheritMaxAge: maxAge === undefined && (ofType.inheritMaxAge === true || ofField.inheritMaxAge === true),
  };
}

export const isPrivateType = (type: GraphQLNamedType): boolean => hintAt(type).scope === "PRIVATE";

/** `inheritMaxAge` excludes a `maxAge` beside it. */
function hintAt(target: Annotated): Hint {
  const args = directivesNamed(target, "cacheControl")[0]?.arguments ?? [];
  const [maxAge, scope, inherit] = ["maxAge", "scope", "inheritMaxAge"].map(
    (argument) => args.find(({ name }) => name.value === argument)?.value,
  );
  const inheritMaxAge = inherit?.kind === Kind.BOOLEAN && inherit.value;
  return {
    maxAge: !inheritMaxAge && maxAge?.kind === Kind.INT ? Number(maxAge.value) : undefined,
    scope:
      scope?.kind === Kind.ENUM && (scope.value === "PUBLIC" || scope.value === "PRIVATE") ? scope.value : undefined,
    inheritMaxAge,
  };
}

/** Whether the hint on the field itself says that it is PUBLIC, and hints are used for it. */
export const hasPublicHint = (field: AnyField, policy: PolicySettings | undefined): boolean =>
  policy?.scope === "PUBLIC" && hintAt(field).scope === "PUBLIC";

/** Whether a field returns entities of all types, whose references have the scope of their type. */
export const isEntitiesField = (schema: GraphQLSchema, parent: GraphQLNamedType, { name }: AnyField): boolean =>
  name === "_entities" && parent === schema.getQueryType();

/**
 * Whether a field is PRIVATE by hints: its own, or else those of the type that it returns, of the
 * objects that this can be, and of the query type. Apollo's rules know neither of the last two,
 * which are for whom a value is kept all the same. Entities are of the scope of their own type.
 */
export function hasPrivateHint(schema: GraphQLSchema, parent: GraphQLNamedType, field: AnyField): boolean {
  const { scope } = hintAt(field);
  if (scope !== undefined) return scope === "PRIVATE";
  const returned = getNamedType(field.type);
  const isOfQuery = parent === schema.getQueryType();
  const objects = isEntitiesField(schema, parent, field) ? [] : objectsOf(schema, returned);
  return [returned, ...objects, ...(isOfQuery ? [parent] : [])].some(isPrivateType);
}
