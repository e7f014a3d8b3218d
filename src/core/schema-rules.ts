import type { GraphQLArgument, GraphQLOutputType, GraphQLResolveInfo } from "graphql";
import type { ValueWriter } from "./keys/canonical.js";
import type { Variant } from "./keys/key.js";
import type { Path, PathRoots } from "./keys/path.js";
import type { BoundTemplate, TagTemplate } from "./keys/tag-template.js";
import type { Policy, PolicySettings } from "./policy/policy.js";
import type { Excess } from "./tier/request/loaded.js";

export class AppliedRules implements SchemaRules {
  readonly fields = new Map<string, FieldRule>();
  readonly invalidations = new Map<string, InvalidationRule>();
  /** By coordinate: the resolver that was there before. Those of references are left out. */
  readonly wrapped = new Map<string, { readonly name: string }>();
  /**
   * By coordinate and variant, of which the fields of all schemas share entries: the resolver that
   * loads them.
   */
  readonly sources = new Map<string, object>();
  /** The policies that were not written in a schema. */
  readonly policies = new Map<string, PolicySettings>();
  isEmpty = true;

  add({ fields, invalidations }: SchemaRules, policies: ReadonlyMap<string, PolicySettings>): void {
    this.isEmpty = false;
    for (const [coordinate, policy] of policies) this.policies.set(coordinate, policy);
    for (const [coordinate, rule] of fields) this.fields.set(coordinate, rule);
    for (const [coordinate, rule] of invalidations) this.invalidations.set(coordinate, rule);
  }
}

/** One part of a key, with the writer of what it leads to. */
export interface KeyPath extends Path {
  readonly write: ValueWriter;
  /**
   * Whether it is a part of the key as null and as absent too, rather than missing. Always so for
   * arguments.
   */
  readonly isOptional: boolean;
}

/** What a field has of the query. */
export interface QueryUse {
  /** Returns what the query selects below the field, with variables. */
  selectionText(info: GraphQLResolveInfo): string;
  /** Begins to watch a load. */
  observe(info: GraphQLResolveInfo): ObservedLoad;
}

/** A load that is watched for what it reads of the query. */
export interface ObservedLoad {
  readonly info: GraphQLResolveInfo;
  /**
   * Returns in what way the load, which has ended, has read more than its key contains; undefined
   * if it has not.
   */
  excess(): Excess | undefined;
}

export interface EntityCall {
  readonly context: unknown;
  readonly info: GraphQLResolveInfo | undefined;
}

/** What keeps a walk from looking into a part of a value. */
export interface Obstacle {
  /** The same text for all that is reported once. */
  readonly kind: string;
  readonly error?: unknown;
}

/** `coordinate`: the field whose value was not looked into. */
export type ReportObstacle = (coordinate: string, obstacle: Obstacle) => void;

export interface EntityFinder {
  /** The types of the entities that can be found. */
  readonly typeNames: ReadonlySet<string>;
  /**
   * Returns the tags of a value that is stored: at most 100, unless it has entities of more types.
   */
  tagsIn(value: unknown, call: EntityCall): readonly string[];
  /**
   * The same for a value that is not stored itself. Undefined if something in it cannot be looked
   * into.
   */
  partsIn(value: unknown, call: EntityCall): readonly string[] | undefined;
  /**
   * Returns the tags of all entities in the result of a mutation, after the promises in it.
   * `report` is told of what it could not look into.
   */
  changedIn(value: unknown, call: EntityCall, report: ReportObstacle): Promise<readonly string[]>;
}

/** The fields of one `@key` of an entity type, by name, with the fields below them. */
export interface KeyFields extends ReadonlyMap<string, KeyFields | undefined> {}

/** References to an entity type, which are cached like a field without arguments. */
export interface ReferenceRule {
  readonly type: GraphQLOutputType;
  /**
   * The keys of the type: with their fields alone, a representation names all entries of an entity.
   * Undefined if `key` says what identifies an entry.
   */
  readonly keys: readonly KeyFields[] | undefined;
}

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
  /** Those of the tags that are known before a load. */
  readonly knownTags: readonly TagTemplate[];
  /** Those that are derived from the value. */
  readonly resultTags: readonly TagTemplate[];
  /**
   * Whether calls with the same key can have other known tags, since these are made from values
   * that the key lacks.
   */
  readonly hasOwnTags: boolean;
  /** Whether the selection is a declared part of the key. */
  readonly declaresSelection: boolean;
  /** The paths to values of the context in the key and in the tags that are known before a load. */
  readonly contextPaths: readonly Path[];
  readonly reportEmptyTag: EmptyTagReporter;
  /** Undefined if values have no tags of their entities. */
  readonly entities: EntityFinder | undefined;
  readonly args: readonly GraphQLArgument[];
  readonly queryUse: QueryUse;
  /** Undefined for fields. For references, the source is the representation. */
  readonly reference: ReferenceRule | undefined;
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
}
