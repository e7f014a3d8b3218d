import type { GraphQLArgument, GraphQLOutputType, GraphQLResolveInfo, GraphQLSchema } from "graphql";
import type { ValueWriter } from "./keys/canonical.js";
import type { Variant } from "./keys/key.js";
import type { Path, PathRoots } from "./keys/path.js";
import type { BoundTemplate, TagTemplate } from "./keys/tag-template.js";
import type { Policy, PolicySettings } from "./policy/policy.js";
import type { Excess } from "./tier/request/loaded.js";

/** Those of several schemas. For a coordinate, the schema that was added last decides. */
export class AppliedRules implements SchemaRules {
  readonly fields = new Map<string, FieldRule>();
  readonly invalidations = new Map<string, InvalidationRule>();
  /** By coordinate: the resolver that was there before. Those of references are left out. */
  readonly wrapped = new Map<string, { readonly name: string }>();
  /** By coordinate and what is shared, entries or responses: the resolver that makes them. */
  readonly sources = new Map<string, object>();
  /** The schemas whose responses may be stored. */
  readonly storing = new WeakSet<GraphQLSchema>();
  readonly policies = new Map<string, PolicySettings>();
  readonly objectTags = new Set<string>();
  readonly privateFields = new Set<string>();
  /** By variant: the paths into the context in the keys of its fields, and in their tags. */
  readonly contextPaths = new Map<string, readonly Path[]>();
  isEmpty = true;

  add({ fields, invalidations, policies, objectTags, privateFields }: SchemaRules): void {
    this.isEmpty = false;
    for (const [coordinate, policy] of policies) this.policies.set(coordinate, policy);
    for (const [coordinate, rule] of fields) this.fields.set(coordinate, rule);
    for (const [coordinate, rule] of invalidations) this.invalidations.set(coordinate, rule);
    for (const tag of objectTags) this.objectTags.add(tag);
    for (const coordinate of privateFields) this.privateFields.add(coordinate);
    for (const { variant, contextPaths } of fields.values()) this.contextPaths.set(variant.id, contextPaths);
  }
}

/** One part of a key, with the writer of what it leads to. */
export interface KeyPath extends Path {
  readonly write: ValueWriter;
  /** Whether null and absent are values of it too, as they always are for arguments. */
  readonly isOptional: boolean;
}

/** What a field has of the query. */
export interface QueryUse {
  /** Returns what the query selects below the field, with variables. */
  selectionText(info: GraphQLResolveInfo): string;
  /** Begins to watch a load. `own`: what its `info` has besides, or instead. */
  observe(info: GraphQLResolveInfo, own: object): ObservedLoad;
}

/** A load that is watched for what it reads of the query. */
export interface ObservedLoad {
  readonly info: GraphQLResolveInfo;
  /** Returns what the load, which has ended, has read beyond its key; undefined: nothing. */
  excess(): Excess | undefined;
}

export interface EntityCall {
  readonly context: unknown;
  readonly info: GraphQLResolveInfo | undefined;
}

/** What keeps a walk from looking into a part of a value. Each `kind` is reported once. */
export interface Obstacle {
  readonly kind: string;
  readonly error?: unknown;
}

/** `coordinate`: the field whose value was not looked into. */
export type ReportObstacle = (coordinate: string, obstacle: Obstacle) => void;

export interface EntityFinder {
  /** The types of the entities that can be found. */
  readonly typeNames: ReadonlySet<string>;
  /** The tags of a value that is stored: at most 100, unless it has entities of more types. */
  tagsIn(value: unknown, call: EntityCall): readonly string[];
  /** Those of a value that is not stored itself. Undefined if a part cannot be looked into. */
  partsIn(value: unknown, call: EntityCall): readonly string[] | undefined;
  /** Those of all entities in the result of a mutation, after the promises in it. */
  changedIn(value: unknown, call: EntityCall, report: ReportObstacle): Promise<readonly string[]>;
}

/** The fields of one `@key` of an entity type, by name, with the fields below them. */
export interface KeyFields extends ReadonlyMap<string, KeyFields | undefined> {}

/** Reports a template that has yielded no tag, if that is a mistake. */
export type EmptyTagReporter = (template: BoundTemplate, roots: PathRoots) => void;

/** One cached field, or references to one entity type. */
export interface FieldRule {
  readonly coordinate: string;
  readonly policy: Policy;
  readonly settings: PolicySettings;
  readonly variant: Variant;
  readonly isRoot: boolean;
  /** The parts of the key, those of the default key included. */
  readonly keyPaths: readonly KeyPath[];
  readonly tags: readonly TagTemplate[];
  /** Those of the tags that are known before a load, and those that are derived from the value. */
  readonly knownTags: readonly TagTemplate[];
  readonly resultTags: readonly TagTemplate[];
  /** Whether the known tags are made from values that the key lacks: calls of one key differ. */
  readonly hasOwnTags: boolean;
  /** Whether the selection is a declared part of the key. */
  readonly declaresSelection: boolean;
  /** The paths to values of the context in the key and in the known tags. */
  readonly contextPaths: readonly Path[];
  readonly reportEmptyTag: EmptyTagReporter;
  /** Undefined if values have no tags of their entities. */
  readonly entities: EntityFinder | undefined;
  readonly args: readonly GraphQLArgument[];
  readonly queryUse: QueryUse;
  /** Undefined for fields. For references to an entity type, the source is the representation. */
  readonly reference:
    | {
        readonly type: GraphQLOutputType;
        /**
         * The keys of the type: with their fields alone, a representation names all entries of an
         * entity. Undefined if `key` says what identifies an entry.
         */
        readonly keys: readonly KeyFields[] | undefined;
      }
    | undefined;
}

/** What a mutation field invalidates when its resolver has succeeded. */
export interface InvalidationRule {
  readonly tags: readonly TagTemplate[];
  readonly reportEmptyTag: EmptyTagReporter;
  /** Finds the entities that it has returned. Undefined if they are not invalidated. */
  readonly entities: EntityFinder | undefined;
}

/** What schemas declare about caching, by coordinate. */
export interface SchemaRules {
  readonly fields: ReadonlyMap<string, FieldRule>;
  /** By the coordinate of a mutation field. */
  readonly invalidations: ReadonlyMap<string, InvalidationRule>;
  /** Those of fields and types that were not written in the schema. */
  readonly policies: ReadonlyMap<string, PolicySettings>;
  /** The texts of the tags that its objects have in any value, such as `User:{$result.id}`. */
  readonly objectTags: ReadonlySet<string>;
  /** The coordinates of all PRIVATE fields, cached or not, and of such references. */
  readonly privateFields: ReadonlySet<string>;
}
