import { hash } from "node:crypto";
import { inspect } from "node:util";
import {
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLCompositeType,
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
import { getOrMake } from "../base/multimap.js";
import type { SchemaFacts } from "../directive/compile/field-facts.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { objectsOf } from "../directive/compile/type-graph.js";
import { hasSingleValue } from "../directive/entities/id-fields.js";
import { CONDITIONS } from "../directive/look-ahead/selection.js";
import type { Path } from "../keys/path.js";
import type { FieldRule, SubtreeRule } from "../schema-rules.js";
import type { SkipReason } from "../telemetry/events.js";

/** Makes the plan of what `nodes` select below a field of the query type. */
export function planSelection(
  nodes: readonly FieldNode[],
  { coordinate: root, type: rootType }: { readonly coordinate: string; readonly type: GraphQLOutputType },
  types: SelectedTypes,
  fragments: Fragments,
): SelectionPlan {
  const texts = new Set<string>();
  const rules = new Map<string, FieldRule>();
  const holes = new Set<string>();
  let obstacle: Obstacle | undefined;
  let depth = 0;
  /** Whether there are holes in a selection, by what it is and the type that it is about. */
  const visited = new Map<SelectionSetNode, Map<string, boolean>>();

  const checkDirectives = (node: Directed): void => {
    const directive = otherDirective(node);
    if (directive !== undefined) obstacle ??= { reason: "DIRECTIVE", subject: `@${directive}` };
  };

  /** Checks the way to a hole: the objects of a list are recognised by their ids when holes are filled. */
  const checkWay = (type: GraphQLOutputType, subject: string): void => {
    if (isListType(getNullableType(type)) && !types.isIdentified(getNamedType(type) as GraphQLCompositeType))
      obstacle ??= { reason: "LIST_WITHOUT_ID", subject };
  };

  const addField = (parent: GraphQLObjectType, field: AnyField): void => {
    const { coordinate, rule, returned } = types.facts.of(parent, field);
    texts.add(`${coordinate}:${field.type} ${rule?.variant.id ?? ""}`);
    texts.add(types.markOf(parent));
    // What a client leaves out is in no key.
    for (const argument of field.args) {
      const value = defaultOf(argument);
      if (value !== undefined) texts.add(`${coordinate}(${argument.name}:) ${inspect(value, { depth: null })}`);
    }
    const members = isEnumType(returned)
      ? returned.getValues().map(({ name }) => name)
      : isAbstractType(returned)
        ? types.schema.getPossibleTypes(returned).map(String)
        : undefined;
    if (members !== undefined) texts.add(`${returned.name} ${members.sort(byText).join(" ")}`);
    if (rule !== undefined) rules.set(rule.coordinate, rule);
  };

  const walkField = ({ name: { value: name }, selectionSet }: FieldNode, type: GraphQLCompositeType): boolean => {
    if (name.startsWith("__")) return false;
    const coordinate = `${type.name}.${name}`;
    if (types.isHole(type, name)) {
      holes.add(coordinate);
      texts.add(`${coordinate} hole`);
      return true;
    }
    for (const { parent, field } of types.fieldsOf(type, name)) addField(parent, field);
    const below = types.below(type, name);
    if (below === undefined || selectionSet === undefined || !walk(selectionSet, below)) return false;
    checkWay(types.typeOf(type, name) as GraphQLOutputType, coordinate);
    return true;
  };

  const walk = (set: SelectionSetNode, type: GraphQLCompositeType): boolean => {
    const ofSet = getOrMake(visited, set, () => new Map<string, boolean>());
    const known = ofSet.get(type.name);
    if (known !== undefined) return known;
    // Documents that were not validated can have cycles.
    ofSet.set(type.name, false);
    if (depth >= MAX_DEPTH) {
      obstacle = { reason: "TOO_MANY_SELECTIONS", subject: root };
      return false;
    }
    depth++;
    let hasHoles = false;
    for (const selection of set.selections) {
      checkDirectives(selection);
      if (selection.kind === Kind.FIELD) {
        if (walkField(selection, type)) hasHoles = true;
        continue;
      }
      const fragment = selection.kind === Kind.FRAGMENT_SPREAD ? fragments.get(selection.name.value) : selection;
      if (fragment === undefined) continue;
      checkDirectives(fragment);
      const narrowed = types.narrowed(type, fragment.typeCondition?.name.value);
      texts.add(`${type.name} ${narrowed.name}`);
      if (walk(fragment.selectionSet, narrowed)) hasHoles = true;
    }
    depth--;
    ofSet.set(type.name, hasHoles);
    return hasHoles;
  };

  for (const { selectionSet } of nodes)
    if (selectionSet !== undefined && walk(selectionSet, getNamedType(rootType) as GraphQLCompositeType))
      checkWay(rootType, root);
  const contextPaths = new Map(
    [...rules.values()].flatMap((rule) => rule.contextPaths).map((path) => [path.text, path]),
  );
  return {
    obstacle,
    typesDigest: hash("sha256", [...texts].sort(byText).join("\n"), "base64url"),
    rules: [...rules.values()],
    contextPaths: [...contextPaths.values()],
    hasHoles: holes.size > 0,
    holes: [...holes],
  };
}

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

export interface SelectionPlan {
  /** Undefined if there is none. */
  readonly obstacle: Obstacle | undefined;
  /** A digest of the types that are selected, and of the variants of the cached fields in it. Releases that differ in them share no entries. */
  readonly typesDigest: string;
  /** The cached fields in it, besides the field itself. Holes are not in it. */
  readonly rules: readonly FieldRule[];
  readonly contextPaths: readonly Path[];
  /** Whether a part of it belongs to one caller, or is not cached. */
  readonly hasHoles: boolean;
  readonly holes: readonly string[];
}

/** Deeper selections are an attack: the documents of subtrees are made by recursion. */
const MAX_DEPTH = 200;

interface Directed {
  readonly directives?: FieldNode["directives"] | undefined;
}

/** Returns the first directive of nodes that is no condition. */
export const otherDirective = (...nodes: readonly Directed[]): string | undefined =>
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
    return objectsOf(this.schema, type).flatMap((parent) => {
      const field = parent.getFields()[name] as AnyField | undefined;
      return field === undefined ? [] : [{ parent, field }];
    });
  }

  narrowed(type: GraphQLCompositeType, condition: string | undefined): GraphQLCompositeType {
    const narrowed = condition === undefined ? undefined : this.schema.getType(condition);
    return isCompositeType(narrowed) ? narrowed : type;
  }

  /** Returns the type of what is below a field. Undefined for a leaf. */
  below(type: GraphQLCompositeType, name: string): GraphQLCompositeType | undefined {
    const declared = this.typeOf(type, name);
    const named = declared && getNamedType(declared);
    return isCompositeType(named) ? named : undefined;
  }

  typeOf(type: GraphQLCompositeType, name: string): GraphQLOutputType | undefined {
    return "getFields" in type ? (type.getFields()[name] as AnyField | undefined)?.type : undefined;
  }

  /** Whether a field belongs to one caller or is not cached, for any of the types that an object can have. */
  isHole(type: GraphQLCompositeType, name: string): boolean {
    return getOrMake(this.#holes, `${type.name}.${name}`, () =>
      this.fieldsOf(type, name).some(({ parent, field }) => {
        const facts = this.facts.of(parent, field);
        return facts.isUncacheable || (!this.isPrivate && (facts.isPrivate || this.facts.isGuarded(parent, field)));
      }),
    );
  }

  /** Returns those of the possible types of an object that have an `id`, or `idFields`, that can be asked for. */
  identified(type: GraphQLCompositeType): readonly GraphQLObjectType[] {
    return objectsOf(this.schema, type).filter((one) =>
      this.idFieldsOf(one).every((name) => {
        const field = one.getFields()[name];
        const isSingle = field !== undefined && hasSingleValue(field);
        return isSingle && !field.args.some(isRequiredArgument) && !this.isHole(one, name);
      }),
    );
  }

  isIdentified(type: GraphQLCompositeType): boolean {
    return this.identified(type).length === objectsOf(this.schema, type).length;
  }
}

const byText = (one: string, other: string): number => (one < other ? -1 : 1);
