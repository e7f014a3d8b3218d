import type { GraphQLResolveInfo } from "graphql";
import { isPlainObject } from "../keys/canonical.js";
import type { Key, KeySpace } from "../keys/key.js";
import { isMemoInput, type KeyMemo, MAX_MEMO_LENGTH, memoText } from "../keys/key-memo.js";
import { EACH, type Path } from "../keys/path.js";
import type { Identity } from "../loader/identity.js";
import type { FieldRule, KeyPath, QueryExtent } from "../schema-rules.js";
import { NearNames } from "../tier/near-cache.js";
import { NO_TAGS } from "../tier/request.js";
import { declaresSelection, type FieldRoots, keyOf, keyOfPart, tagNamesOf } from "./field-rule.js";

type Args = Readonly<Record<string, unknown>>;
/** Returns the one value that the names of a call are made from. */
type ReadOnlyInput = (source: unknown, args: Args, context: unknown) => unknown;

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
  /** Undefined if names are made from several values, or from the caller's identity. */
  readonly #readOnlyInput: ReadOnlyInput | undefined;
  /** Undefined if there is no only input, or if it is among all arguments. */
  readonly #keyOfOnlyInput: ((input: string | number) => Key) | undefined;
  readonly #byOnlyInput: KeyMemo<NearNames>;
  readonly #byText: KeyMemo<NearNames>;

  constructor(rule: FieldRule, keys: KeySpace) {
    this.#rule = rule;
    this.#keys = keys;
    this.#byOnlyInput = keys.memos.create();
    this.#byText = keys.memos.create();
    this.#inputs = inputsOf(rule);
    this.#hasDeclaredSelection = declaresSelection(rule.keyPaths);
    const isPublic = rule.policy.scope === "PUBLIC";
    this.#readOnlyInput =
      isPublic && !this.#hasDeclaredSelection ? onlyInputOf(this.#inputs ?? [], rule.args) : undefined;
    const part = this.#readOnlyInput === undefined ? undefined : onlyPartOf(rule);
    this.#keyOfOnlyInput = part === undefined ? undefined : keyOfPart(rule, part, keys);
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
    if (this.#readOnlyInput !== undefined && extent === "none") {
      const input = this.#readOnlyInput(source, args, context);
      if (isMemoInput(input)) {
        const known = this.#byOnlyInput.get(input);
        if (known !== undefined) return known;
        const key = this.#keyOfOnlyInput?.(input);
        // Most fields have no tags, and an object of the roots less to make.
        const names =
          key !== undefined && this.#rule.tags.length === 0
            ? new NearNames(key, NO_TAGS.names)
            : this.#make({ source, args, context, info, extent }, identity, key);
        this.#byOnlyInput.set(input, names);
        return names;
      }
    }
    const text = this.#textOf(source, args, context, info, identity, extent);
    const known = text === undefined ? undefined : this.#byText.get(text);
    if (known !== undefined) return known;
    const names = this.#make({ source, args, context, info, extent }, identity);
    if (text !== undefined) this.#byText.set(text, names);
    return names;
  }

  #make(
    roots: FieldRoots,
    identity: Identity | undefined,
    key = keyOf(this.#rule, roots, identity, this.#keys),
  ): NearNames {
    return new NearNames(key, tagNamesOf(this.#rule, roots, identity, this.#keys));
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
      if (text === undefined) return undefined;
      const part = isAllArguments(path) ? argumentsText(args) : memoText(valueAt(path, source, args, context));
      text = part === undefined ? undefined : text + part;
    }
    if (extent !== "none" || this.#hasDeclaredSelection) {
      const { queryUse } = this.#rule;
      const selection = memoText(queryUse.selectionText(info));
      const operation = extent === "operation" ? memoText(queryUse.operationText(info)) : "";
      if (text === undefined || selection === undefined || operation === undefined) return undefined;
      text += `${extent} ${selection}${operation}`;
    }
    return text === undefined || text.length > MAX_MEMO_LENGTH ? undefined : text;
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

/** Returns the reader of the one value among `inputs`. Undefined if there are several. */
function onlyInputOf(inputs: readonly Path[], args: FieldRule["args"]): ReadOnlyInput | undefined {
  const others = inputs.filter((path) => !isAllArguments(path));
  const [path] = others;
  if (others.length === inputs.length)
    return path !== undefined && others.length === 1
      ? (source, given, context) => valueAt(path, source, given, context)
      : undefined;
  if (path === undefined && args.length === 1) {
    const { name } = args[0] as { readonly name: string };
    return (_, given) => (hasOnly(given, name) ? given[name] : NOT_REMEMBERED);
  }
  if (path !== undefined && others.length === 1 && args.length === 0)
    return (source, given, context) =>
      hasOnly(given, undefined) ? valueAt(path, source, given, context) : NOT_REMEMBERED;
  return undefined;
}

/**
 * Returns the only part in which the keys of a field differ whose names are made from one value. Undefined if that value is
 * among all arguments.
 */
function onlyPartOf({ keyPaths, args }: FieldRule): KeyPath | undefined {
  const [part, ...others] = keyPaths.filter((path) => !isAllArguments(path));
  const isAlone = others.length === 0 && (args.length === 0 || keyPaths.length === 1);
  return isAlone ? part : undefined;
}

/** Stands for a value that names are made from in another way than from a single value. */
const NOT_REMEMBERED = Symbol("not remembered");

/** Whether arguments are a plain object with no other property than `name`. */
function hasOnly(args: Args, name: string | undefined): boolean {
  for (const given in args) if (given !== name) return false;
  return isPlainObject(args);
}

function valueAt({ root, steps }: Path, source: unknown, args: Args, context: unknown): unknown {
  let value: unknown = root === "args" ? args : root === "source" ? source : context;
  for (const step of steps) {
    // What is missing or a list on the way to the value is part of an argument's text.
    if (typeof value !== "object" || value === null || Array.isArray(value)) return NOT_REMEMBERED;
    value = (value as Readonly<Record<string, unknown>>)[step];
  }
  return value;
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
