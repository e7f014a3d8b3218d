import type { GraphQLResolveInfo } from "graphql";
import { isPlainObject } from "../../base/built-in.js";
import { executionOf } from "../../base/graphql-version.js";
import { type KeySpace, memoText } from "../../keys/key.js";
import { EACH, type Path } from "../../keys/path.js";
import { combinationsIn } from "../../keys/tag-template.js";
import type { Identity } from "../../loader/identity.js";
import type { RequestStates } from "../../loader/request-states.js";
import type { FieldRule } from "../../schema-rules.js";
import type { NearKey } from "../../tier/near/near-cache.js";
import { type FieldRoots, keyOf, knownTagsOf, pathsIn } from "../compile/field-rule.js";

/**
 * Makes the names of the calls of one field, and remembers them by the values that they are made from: those at the
 * paths of the key and of the tags. Calls with an object among these values are not remembered, since objects can
 * change.
 */
export class FieldKeys {
  readonly #rule: FieldRule;
  readonly #keys: KeySpace;
  readonly #requestStates: RequestStates;
  readonly #inputs: readonly Path[] | undefined;
  readonly #known = new Map<string, NearKey>();

  constructor(rule: FieldRule, keys: KeySpace, requestStates: RequestStates) {
    this.#rule = rule;
    this.#keys = keys;
    this.#requestStates = requestStates;
    this.#inputs = inputsOf(rule);
  }

  of(source: unknown, args: Args, context: unknown, info: GraphQLResolveInfo, identity: Identity | undefined): NearKey {
    const { coordinate, knownTags } = this.#rule;
    const roots = { source, args, context, info };
    const text = this.#textOf(roots, identity);
    const known = text === undefined ? undefined : this.#known.get(text);
    if (known !== undefined) return known;
    const { budget } = this.#requestStates.loader(executionOf(info), this.#requestStates.observerOf(context));
    budget.checkKeys(coordinate);
    const key = keyOf(this.#rule, roots, identity, this.#keys);
    budget.addKey(key);
    for (const template of knownTags) budget.addCombinations(combinationsIn(template, roots), coordinate);
    const names: NearKey = { key, tags: knownTagsOf(this.#rule, roots, identity, this.#keys), near: undefined };
    if (text !== undefined) this.#keys.memos.set(this.#known, text, names);
    return names;
  }

  #textOf(
    roots: FieldRoots & { readonly info: GraphQLResolveInfo },
    identity: Identity | undefined,
  ): string | undefined {
    if (this.#inputs === undefined) return undefined;
    // Loops and concatenation: every near hit makes this text.
    let text = memoText(identity);
    for (const path of this.#inputs) {
      const part = textAt(path, roots);
      if (text === undefined || part === undefined) return undefined;
      text += part;
    }
    const { queryUse, declaresSelection } = this.#rule;
    if (text === undefined || !declaresSelection) return text;
    const selection = memoText(queryUse.selectionText(roots.info));
    return selection === undefined ? undefined : text + selection;
  }
}

type Args = Readonly<Record<string, unknown>>;

/** Returns the paths to the values that names are made from, besides the selection. Undefined if they are made from more than single values. */
function inputsOf({ keyPaths, knownTags, reference }: FieldRule): readonly Path[] | undefined {
  // Whether a representation has more fields than those of its key decides about its tags.
  if (reference?.keys !== undefined) return undefined;
  const paths: readonly Path[] = [...keyPaths, ...pathsIn(knownTags)].filter(({ root }) => root !== "selection");
  if (paths.some(({ steps }) => steps.includes(EACH))) return undefined;
  const hasAllArguments = paths.some(isAllArguments);
  const needed = paths.filter((path) => path.root !== "args" || isAllArguments(path) || !hasAllArguments);
  return [...new Map(needed.map((path) => [path.text, path])).values()];
}

const isAllArguments = ({ root, steps }: Path): boolean => root === "args" && steps.length === 0;

/** Undefined as well if what leads to the value is missing, or a list: the key depends on which. */
function textAt(path: Path, roots: FieldRoots): string | undefined {
  const { root, steps } = path;
  if (root === "args" && steps.length === 0) return argumentsText(roots.args);
  let value: unknown = roots[root as "args" | "source" | "context"];
  for (const step of steps) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    value = (value as Args)[step];
  }
  return memoText(value);
}

function argumentsText(args: Args): string | undefined {
  if (!isPlainObject(args)) return undefined;
  let text = "";
  for (const name in args) {
    const part = memoText(args[name]);
    if (part === undefined) return undefined;
    text += memoText(name) + part;
  }
  return `${text};`;
}
