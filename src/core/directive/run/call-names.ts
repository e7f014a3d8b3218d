import type { GraphQLResolveInfo } from "graphql";
import { executionOf } from "../../base/graphql-version.js";
import { type KeySpace, memoText } from "../../keys/key.js";
import { EACH, type Path } from "../../keys/path.js";
import { combinationsIn } from "../../keys/tag-template.js";
import type { Identity } from "../../loader/identity.js";
import type { RequestScopes } from "../../loader/request-scope.js";
import type { FieldRule, QueryExtent } from "../../schema-rules.js";
import type { NearNames } from "../../tier/near/near-cache.js";
import { declaresSelection, keyOf, knownTagsOf } from "../compile/field-rule.js";

type Args = Readonly<Record<string, unknown>>;

/**
 * Makes the names of the calls of one field, and remembers them by the values that they are made from:
 * those at the paths of the key and of the tags. Calls with an object among these values are not
 * remembered, since objects can change.
 */
export class FieldNames {
  readonly #rule: FieldRule;
  readonly #keys: KeySpace;
  /** The paths to the values that names are made from. Undefined if names are not remembered. */
  readonly #inputs: readonly Path[] | undefined;
  readonly #hasDeclaredSelection: boolean;
  readonly #known = new Map<string, NearNames>();

  readonly #scopes: RequestScopes;

  constructor(rule: FieldRule, keys: KeySpace, scopes: RequestScopes) {
    this.#rule = rule;
    this.#keys = keys;
    this.#scopes = scopes;
    this.#inputs = inputsOf(rule);
    this.#hasDeclaredSelection = declaresSelection(rule.keyPaths);
  }

  /** Returns the names of one call. Throws what `keyOf` throws. */
  of(
    source: unknown,
    args: Args,
    context: unknown,
    info: GraphQLResolveInfo,
    identity: Identity | undefined,
  ): NearNames {
    // Loads can widen it.
    const { extent } = this.#rule.queryUse;
    const text = this.#textOf(source, args, context, info, identity, extent);
    const known = text === undefined ? undefined : this.#known.get(text);
    if (known !== undefined) return known;
    const roots = { source, args, context, info, extent };
    const { coordinate, tags } = this.#rule;
    const { budget } = this.#scopes.loader(executionOf(info), this.#scopes.observerOf(context, info));
    budget.checkKeys(coordinate);
    const key = keyOf(this.#rule, roots, identity, this.#keys);
    budget.addKey(key);
    for (const template of tags)
      if (!template.needsResult) budget.addCombinations(combinationsIn(template, roots), coordinate);
    const knownTags = knownTagsOf(this.#rule, roots, identity, this.#keys);
    const names: NearNames = { key, tags: knownTags, near: undefined };
    if (text !== undefined) this.#keys.memos.set(this.#known, text, names);
    return names;
  }

  /** Returns everything that the names of a call are made from. Undefined if they are not remembered. */
  #textOf(
    source: unknown,
    args: Args,
    context: unknown,
    info: GraphQLResolveInfo,
    identity: Identity | undefined,
    extent: QueryExtent,
  ): string | undefined {
    if (this.#inputs === undefined) return undefined;
    let text = memoText(identity);
    for (const path of this.#inputs) {
      const part =
        path.root === "args" && path.steps.length === 0 ? argumentsText(args) : textAt(path, source, args, context);
      if (text === undefined || part === undefined) return undefined;
      text += part;
    }
    if (text === undefined || (extent === "none" && !this.#hasDeclaredSelection)) return text;
    const { queryUse } = this.#rule;
    const selection = memoText(queryUse.selectionText(info, context));
    const operation = extent === "operation" ? memoText(queryUse.operationText(info)) : "";
    return selection === undefined || operation === undefined ? undefined : `${text}${extent} ${selection}${operation}`;
  }
}

/**
 * Returns the paths to the values that the names of a field's calls are made from, besides the
 * selection. Undefined if names are made from more than single values.
 */
function inputsOf({ keyPaths, tags, reference }: FieldRule): readonly Path[] | undefined {
  // Whether a representation has more fields than those of its key decides about its tags.
  if (reference?.keys !== undefined) return undefined;
  const inTags = tags.flatMap(({ pieces, needsResult }) => (needsResult ? [] : pieces)).filter(isPath);
  const paths: readonly Path[] = [...keyPaths, ...inTags].filter(({ root }) => root !== "selection");
  if (paths.some(({ steps }) => steps.includes(EACH))) return undefined;
  const hasAllArguments = paths.some(isAllArguments);
  const needed = paths.filter((path) => path.root !== "args" || isAllArguments(path) || !hasAllArguments);
  return [...new Map(needed.map((path) => [path.text, path])).values()];
}

const isPath = (piece: string | Path): piece is Path => typeof piece !== "string";
const isAllArguments = ({ root, steps }: Path): boolean => root === "args" && steps.length === 0;

/** Undefined as well if what leads to the value is missing, or a list: the key depends on which. */
function textAt({ root, steps }: Path, source: unknown, args: Args, context: unknown): string | undefined {
  let value: unknown = root === "args" ? args : root === "source" ? source : context;
  for (const step of steps) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[step];
  }
  return memoText(value);
}

function argumentsText(args: Args): string | undefined {
  const prototype: unknown = Object.getPrototypeOf(args);
  if (prototype !== null && prototype !== Object.prototype) return undefined;
  let text = "";
  for (const name in args) {
    const part = memoText(args[name]);
    if (part === undefined) return undefined;
    text += memoText(name) + part;
  }
  return `${text};`;
}
