import { hash } from "node:crypto";
import { inspect } from "node:util";
import {
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLCompositeType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isAbstractType,
  isCompositeType,
  isEnumType,
  isListType,
  isRequiredArgument,
  Kind,
  type SelectionSetNode,
} from "graphql";
import { defaultOf } from "../base/graphql-version.js";
import type { SchemaFacts } from "../directive/compile/field-facts.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { hasSingleValue } from "../directive/entities/id-fields.js";
import { CONDITIONS } from "../directive/look-ahead/selection.js";
import type { Path } from "../keys/path.js";
import type { Policy } from "../policy/policy.js";
import type { FieldRule, SubtreeRule } from "../schema-rules.js";
import type { SkipReason } from "../telemetry/events.js";

export type Fragments = ReadonlyMap<string, FragmentDefinitionNode>;

/** Why a field is cached field by field although it has `subtree: true`. */
export interface Obstacle {
  readonly reason: Extract<
    SkipReason,
    "CHANGED_RESOLVER" | "DIRECTIVE" | "HOLE" | "LIST_WITHOUT_ID" | "NO_TWIN" | "TOO_MANY_SELECTIONS"
  >;
  /** What it is about: a directive, or the coordinate of a field. */
  readonly subject: string;
}

/** What can be said of the subtree of a field before it is executed. */
export interface SelectionPlan {
  /** Undefined if there is none. */
  readonly obstacle: Obstacle | undefined;
  /** A digest of the types that are selected, and of the variants of the cached fields in it. Releases that differ in them share no entries. */
  readonly typesDigest: string;
  /** The cached fields in it, besides the field itself. Holes are not in it. */
  readonly rules: readonly FieldRule[];
  /** The paths to values of the context in the keys and tags of these. */
  readonly contextPaths: readonly Path[];
  /** Whether a part of it belongs to one caller, or is not cached. */
  readonly hasHoles: boolean;
  /** The coordinates of the holes. */
  readonly holes: readonly string[];
}

/** Deeper selections are an attack: the documents of subtrees are made by recursion. */
const MAX_DEPTH = 200;

/** Returns the first directive of nodes that is no condition. */
export const otherDirective = (
  ...nodes: readonly { readonly directives?: FieldNode["directives"] | undefined }[]
): string | undefined =>
  nodes
    .flatMap(({ directives }) => directives ?? [])
    .map(({ name }) => name.value)
    .find((name) => !CONDITIONS.includes(name));

/** What a selection is about: the types that its objects can have, and which of their fields are left out of entries. */
export class SelectedTypes {
  readonly schema: GraphQLSchema;
  readonly facts: SchemaFacts;
  /** Whether entries belong to one identity, so that PRIVATE fields are parts of them. */
  readonly isPrivate: boolean;
  readonly #holes = new Map<string, boolean>();
  readonly #subtree: SubtreeRule;

  constructor(schema: GraphQLSchema, facts: SchemaFacts, { policy, subtree }: Pick<FieldRule, "policy" | "subtree">) {
    this.schema = schema;
    this.facts = facts;
    this.isPrivate = policy.scope === "PRIVATE";
    this.#subtree = subtree as SubtreeRule;
  }

  /** Returns the names of the fields that identify the objects of a type. */
  idFieldsOf(type: Pick<GraphQLObjectType, "name">): readonly string[] {
    return this.#subtree.idFields.of(type.name);
  }

  /** Returns what entries with objects of a type depend on besides what is selected of them: the tags that they have. */
  markOf({ name }: GraphQLObjectType): string {
    return this.#subtree.tagsEntity(name) ? `${name} is ${this.#subtree.idFields.of(name).join()}` : "";
  }

  /** Returns the fields of a name of all object types that an object of `type` can have. */
  fieldsOf(
    type: GraphQLCompositeType,
    name: string,
  ): { readonly parent: GraphQLObjectType; readonly field: AnyField }[] {
    return this.#possibleTypes(type).flatMap((parent) => {
      const field = parent.getFields()[name] as AnyField | undefined;
      return field === undefined ? [] : [{ parent, field }];
    });
  }

  #possibleTypes(type: GraphQLCompositeType): readonly GraphQLObjectType[] {
    return isAbstractType(type) ? this.schema.getPossibleTypes(type) : [type];
  }

  /** Returns the type that the selections of a fragment are about. */
  narrowed(type: GraphQLCompositeType, condition: string | undefined): GraphQLCompositeType {
    const narrowed: GraphQLNamedType | null | undefined =
      condition === undefined ? undefined : this.schema.getType(condition);
    return isCompositeType(narrowed) ? narrowed : type;
  }

  /** Returns the type of what is below a field. Undefined for a leaf. */
  below(type: GraphQLCompositeType, name: string): GraphQLCompositeType | undefined {
    const declared = this.typeOf(type, name);
    const named = declared && getNamedType(declared);
    return isCompositeType(named) ? named : undefined;
  }

  /** Returns the type of a field as `type` declares it. */
  typeOf(type: GraphQLCompositeType, name: string): GraphQLOutputType | undefined {
    return "getFields" in type ? (type.getFields()[name] as AnyField | undefined)?.type : undefined;
  }

  /** Whether a field belongs to one caller or is not cached, for any of the types that an object can have. */
  isHole(type: GraphQLCompositeType, name: string): boolean {
    const place = `${type.name}.${name}`;
    const known = this.#holes.get(place);
    if (known !== undefined) return known;
    const isHole = this.fieldsOf(type, name).some(({ parent, field }) => {
      const facts = this.facts.of(parent, field);
      return facts.isUncacheable || (!this.isPrivate && (facts.isPrivate || this.facts.isGuarded(parent, field)));
    });
    this.#holes.set(place, isHole);
    return isHole;
  }

  /** Returns those of the possible types of an object that have an `id`, or `idFields`, that can be asked for. */
  identified(type: GraphQLCompositeType): readonly GraphQLObjectType[] {
    return this.#possibleTypes(type).filter((one) =>
      this.idFieldsOf(one).every((name) => {
        const field = one.getFields()[name];
        return (
          field !== undefined &&
          hasSingleValue(field) &&
          !field.args.some(isRequiredArgument) &&
          !this.isHole(one, name)
        );
      }),
    );
  }

  /** Whether each object of a type has an `id`. */
  isIdentified(type: GraphQLCompositeType): boolean {
    return this.identified(type).length === this.#possibleTypes(type).length;
  }
}

/** Makes the plan of what `nodes` select below a field of the query type. */
export function planSelection(
  nodes: readonly FieldNode[],
  { coordinate, type }: { readonly coordinate: string; readonly type: GraphQLOutputType },
  types: SelectedTypes,
  fragments: Fragments,
): SelectionPlan {
  const walk = new SelectionWalk(types, fragments, coordinate);
  const named = getNamedType(type) as GraphQLCompositeType;
  for (const { selectionSet } of nodes)
    if (selectionSet !== undefined && walk.selections(selectionSet, named)) walk.checkWay(type, coordinate);
  const rules = [...walk.rules.values()];
  const contextPaths = new Map(rules.flatMap((rule) => rule.contextPaths).map((path) => [path.text, path]));
  return {
    obstacle: walk.obstacle,
    typesDigest: hash("sha256", [...walk.texts].sort(byText).join("\n"), "base64url"),
    rules,
    contextPaths: [...contextPaths.values()],
    hasHoles: walk.holes.size > 0,
    holes: [...walk.holes],
  };
}

const byText = (one: string, other: string): number => (one < other ? -1 : 1);

class SelectionWalk {
  readonly texts = new Set<string>();
  readonly rules = new Map<string, FieldRule>();
  readonly holes = new Set<string>();
  obstacle: Obstacle | undefined;
  readonly #types: SelectedTypes;
  readonly #fragments: Fragments;
  readonly #root: string;
  #depth = 0;
  /** Whether there are holes in a selection, by what it is and the type that it is about. */
  readonly #visited = new Map<SelectionSetNode, Map<string, boolean>>();

  /** `root`: the coordinate of the field of the query type. */
  constructor(types: SelectedTypes, fragments: Fragments, root: string) {
    this.#types = types;
    this.#fragments = fragments;
    this.#root = root;
  }

  /** Returns whether there are holes in a selection. */
  selections(set: SelectionSetNode, type: GraphQLCompositeType): boolean {
    const visited = this.#visited.get(set) ?? new Map<string, boolean>();
    this.#visited.set(set, visited);
    const known = visited.get(type.name);
    if (known !== undefined) return known;
    // Documents that were not validated can have cycles.
    visited.set(type.name, false);
    if (this.#depth >= MAX_DEPTH) {
      this.obstacle = { reason: "TOO_MANY_SELECTIONS", subject: this.#root };
      return false;
    }
    this.#depth++;
    let hasHoles = false;
    for (const selection of set.selections) {
      this.#checkDirectives(selection);
      if (selection.kind === Kind.FIELD) {
        if (this.#field(selection, type)) hasHoles = true;
        continue;
      }
      const fragment = selection.kind === Kind.FRAGMENT_SPREAD ? this.#fragments.get(selection.name.value) : selection;
      if (fragment === undefined) continue;
      this.#checkDirectives(fragment);
      const narrowed = this.#types.narrowed(type, fragment.typeCondition?.name.value);
      this.texts.add(`${type.name} ${narrowed.name}`);
      if (this.selections(fragment.selectionSet, narrowed)) hasHoles = true;
    }
    this.#depth--;
    visited.set(type.name, hasHoles);
    return hasHoles;
  }

  #field({ name: { value: name }, selectionSet }: FieldNode, type: GraphQLCompositeType): boolean {
    if (name.startsWith("__")) return false;
    if (this.#types.isHole(type, name)) {
      const coordinate = `${type.name}.${name}`;
      this.holes.add(coordinate);
      this.texts.add(`${coordinate} hole`);
      return true;
    }
    for (const { parent, field } of this.#types.fieldsOf(type, name)) this.#add(parent, field);
    const below = this.#types.below(type, name);
    if (below === undefined || selectionSet === undefined || !this.selections(selectionSet, below)) return false;
    this.checkWay(this.#types.typeOf(type, name) as GraphQLOutputType, `${type.name}.${name}`);
    return true;
  }

  #add(parent: GraphQLObjectType, field: AnyField): void {
    const { coordinate, rule, returned } = this.#types.facts.of(parent, field);
    this.texts.add(`${coordinate}:${field.type} ${rule?.variant.id ?? ""}`);
    this.texts.add(this.#types.markOf(parent));
    // What a client leaves out is in no key.
    for (const argument of field.args) {
      const value = defaultOf(argument);
      if (value !== undefined) this.texts.add(`${coordinate}(${argument.name}:) ${inspect(value, { depth: null })}`);
    }
    const listed = (name: string, members: readonly string[]): void => {
      this.texts.add(`${name} ${[...members].sort(byText).join(" ")}`);
    };
    if (isEnumType(returned))
      listed(
        returned.name,
        returned.getValues().map((value) => value.name),
      );
    if (isAbstractType(returned)) listed(returned.name, this.#types.schema.getPossibleTypes(returned).map(String));
    if (rule !== undefined) this.rules.set(rule.coordinate, rule);
  }

  /** The objects of a list are recognised by their ids when holes are filled. */
  checkWay(type: GraphQLOutputType, subject: string): void {
    if (!isListType(getNullableType(type)) || this.#types.isIdentified(getNamedType(type) as GraphQLCompositeType))
      return;
    this.obstacle ??= { reason: "LIST_WITHOUT_ID", subject };
  }

  #checkDirectives(node: { readonly directives?: FieldNode["directives"] | undefined }): void {
    const directive = otherDirective(node);
    if (directive !== undefined) this.obstacle ??= { reason: "DIRECTIVE", subject: `@${directive}` };
  }
}

/** Returns the narrowest of the policies of a field and of the cached fields below it. The value is shared by all its readers. */
export function narrowestPolicy(own: Policy, below: readonly Policy[]): Policy {
  const least = (ofPolicy: (policy: Policy) => number): number => Math.min(...[own, ...below].map(ofPolicy));
  const maxAgeMs = least((policy) => policy.maxAgeMs);
  const { maxAgeLimitMs: _limit, followsHints: _follows, isDeclaredPublic: _declared, ...others } = own;
  return {
    ...others,
    maxAgeMs,
    negativeMaxAgeMs: Math.min(own.negativeMaxAgeMs, maxAgeMs),
    staleWhileRevalidateMs: least((policy) => policy.staleWhileRevalidateMs),
    staleIfErrorMs: least((policy) => policy.staleIfErrorMs),
    neverExpires: own.neverExpires && below.every((policy) => policy.neverExpires),
    readOnly: true,
  };
}
