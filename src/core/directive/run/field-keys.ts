import type { GraphQLResolveInfo } from "graphql";
import { isPlainObject } from "../../base/built-in.js";
import { memoText } from "../../keys/key.js";
import { EACH, type Path } from "../../keys/path.js";
import { combinationsIn } from "../../keys/tag-template.js";
import type { Identity } from "../../loader/identity.js";
import type { CacheParts } from "../../parts.js";
import type { FieldRule } from "../../schema-rules.js";
import { KnownKey, type Memo, type Row } from "../../tier/request/known-key.js";
import { type FieldRoots, keyOf, knownTagsOf, pathsIn } from "../compile/field-rule.js";

type ExecutionRoots = FieldRoots & { readonly info: GraphQLResolveInfo };

/**
 * Makes the keys of the calls of one field, and remembers them by the values that they are made
 * from: those at the paths of the key and of the tags. Calls with an object among these values are
 * not remembered, since objects can change.
 */
export class FieldKeys {
  readonly #inputs: readonly Path[] | undefined;
  /** The one property that most keys are made from: it is looked up as it is if it is a string. */
  readonly #single: Single | undefined;
  readonly #memo: Memo;
  readonly #slot: number;

  constructor(
    private readonly rule: FieldRule,
    private readonly parts: KeyParts,
  ) {
    this.#inputs = inputsOf(rule);
    this.#single = singleOf(this.#inputs, rule);
    const isOfSource = this.#single?.root === "source";
    const name = `${rule.coordinate} ${rule.variant.id}`;
    // The fields of one parent share the rows of their keys.
    this.#memo = parts.memos.of(isOfSource ? `${typeOf(rule)} ${this.#single?.step}` : name);
    this.#slot = this.#memo.slotOf(`${name} ${JSON.stringify(rule.policy)}`);
  }

  of(
    source: unknown,
    args: Args,
    context: unknown,
    info: GraphQLResolveInfo,
    identity: Identity | undefined,
  ): KnownKey {
    const single = this.#single;
    if (single !== undefined) {
      const value = ((single.root === "args" ? args : source) as Args | null | undefined)?.[single.step];
      if (typeof value === "string" && value.charCodeAt(0) !== 0) {
        const row = this.#memo.row(value);
        return row.keys[this.#slot] ?? this.#make({ source, args, context, info }, identity, row);
      }
    }
    const roots = { source, args, context, info };
    const text = this.#textOf(roots, identity);
    if (text === undefined) return this.#found(this.#make(roots, identity, undefined));
    // Set apart from strings that are looked up as they are.
    const row = this.#memo.row(`\0${text}`);
    return row.keys[this.#slot] ?? this.#make(roots, identity, row);
  }

  /** A key made from objects is made for each call, and found again by its name and tags. */
  #found(made: KnownKey): KnownKey {
    const { key, tags } = made;
    if (tags.isOwn) return made;
    const row = this.#memo.row(`\0\0${key.name} ${key.hash} ${tags.subjects.join(" ")}`);
    const known = row.keys[this.#slot];
    if (known !== undefined) return known;
    made.row = row;
    this.#memo.remember(made, this.#slot);
    return made;
  }

  #make(roots: ExecutionRoots, identity: Identity | undefined, row: Row | undefined): KnownKey {
    const { coordinate, knownTags } = this.rule;
    const { keys, requestStates } = this.parts;
    const { budget } = requestStates.execution(roots.info, requestStates.observerOf(roots.context));
    const key = budget.makeKey(coordinate, () => keyOf(this.rule, roots, identity, keys));
    for (const template of knownTags) budget.addCombinations(combinationsIn(template, roots), coordinate);
    const tags = knownTagsOf(this.rule, roots, identity, keys);
    budget.addTags(tags.texts);
    const known = new KnownKey(key, tags, row);
    if (row !== undefined) this.#memo.remember(known, this.#slot);
    return known;
  }

  #textOf(roots: ExecutionRoots, identity: Identity | undefined): string | undefined {
    if (this.#inputs === undefined) return undefined;
    // Loops and concatenation: every hit makes this text.
    let text = memoText(identity);
    for (const path of this.#inputs) {
      const part = textAt(path, roots);
      if (text === undefined || part === undefined) return undefined;
      text += part;
    }
    const { queryUse, declaresSelection } = this.rule;
    if (text === undefined || !declaresSelection) return text;
    const selection = memoText(queryUse.selectionText(roots.info));
    return selection === undefined ? undefined : text + selection;
  }
}

type KeyParts = Pick<CacheParts, "keys" | "requestStates" | "memos">;

type Args = Readonly<Record<string, unknown>>;

interface Single {
  readonly root: "args" | "source";
  readonly step: string;
}

const typeOf = ({ coordinate }: FieldRule): string => coordinate.slice(0, coordinate.indexOf("."));

function singleOf(inputs: readonly Path[] | undefined, { policy, declaresSelection }: FieldRule): Single | undefined {
  const [path, other] = inputs ?? [];
  if (path === undefined || other !== undefined || declaresSelection || policy.scope === "PRIVATE") return undefined;
  const { root, steps } = path;
  const [step, next] = steps;
  return step === undefined || next !== undefined || (root !== "args" && root !== "source")
    ? undefined
    : { root, step };
}

/** Returns the paths of single values that make names, but the selection. Undefined: others do. */
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
