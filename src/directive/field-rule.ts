import { coerceInputValue, type GraphQLArgument, type GraphQLField, type GraphQLResolveInfo } from "graphql";
import { CachedError } from "../errors.js";
import type { Key, KeySpace } from "../keys/key.js";
import { type Path, type PathRoots, readPath } from "../keys/path.js";
import { type TagTemplate, writeTags } from "../keys/tag-template.js";
import type { Identity } from "../loader/identity.js";
import type { Policy } from "../policy/policy.js";
import type { RequestTags } from "../tier/request.js";
import { selectionOf } from "./selection.js";

/** All that is known of one cached field once the schema is built. */
export interface FieldRule {
  readonly coordinate: string;
  readonly policy: Policy;
  readonly isRoot: boolean;
  /** Undefined: the default key. */
  readonly keyPaths: readonly Path[] | undefined;
  readonly tags: readonly TagTemplate[];
  readonly args: readonly GraphQLArgument[];
}

/** What a field's key is made of: arguments with defaults applied, the parent object, the context, and the resolver's info. */
export interface FieldRoots {
  readonly args: Readonly<Record<string, unknown>>;
  readonly source: unknown;
  readonly context: unknown;
  /** Undefined where there is no execution: `$selection` cannot be read then. */
  readonly info: GraphQLResolveInfo | undefined;
}

/**
 * The key of one field call.
 * Errors: `CACHED_KEY_UNUSABLE` where a part is not there, `CACHED_KEY_UNSERIALIZABLE` where one cannot be written; both name the coordinate.
 */
export function keyOf(rule: FieldRule, roots: FieldRoots, identity: Identity | undefined, keys: KeySpace): Key {
  const { coordinate } = rule;
  const parts =
    rule.keyPaths === undefined
      ? defaultParts(rule, roots)
      : rule.keyPaths.map((path) => [path.text, partOf(path, roots, coordinate)]);
  try {
    return keys.entry({ kind: "field", coordinate, identity, parts });
  } catch (cause) {
    const why = cause instanceof CachedError ? cause.message : "a part of the key cannot be read";
    throw new CachedError("CACHED_KEY_UNSERIALIZABLE", `\`${coordinate}\` is not cached: ${why}`, {
      coordinate,
      cause,
    });
  }
}

function defaultParts(rule: FieldRule, roots: FieldRoots): unknown {
  if (rule.isRoot) return [roots.args];
  const [id] = readPath(SOURCE_ID, roots as PathRoots);
  if (id === undefined) throw unusable(rule.coordinate, SOURCE_ID.text);
  return [roots.args, id];
}

const SOURCE_ID: Path = { text: "$source.id", root: "source", steps: ["id"] };

function partOf(path: Path, roots: FieldRoots, coordinate: string): unknown {
  if (path.root === "selection") {
    if (roots.info === undefined) throw unusable(coordinate, path.text);
    return selectionOf(roots.info);
  }
  if (path.root === "args" && path.steps.length === 0) return roots.args;
  const part = path.root === "args" ? argumentOf(path, roots.args) : readPath(path, roots as unknown as PathRoots)[0];
  if (part === undefined) throw unusable(coordinate, path.text);
  return part;
}

/**
 * Null and absent differ for a resolver, at each step of the way, and both from all that can be given: a value is written in a list, what is missing is not.
 * Undefined where there is something on the way that has no such part, which the key would leave out.
 */
function argumentOf({ steps }: Path, args: Readonly<Record<string, unknown>>): unknown {
  let value: unknown = args;
  for (const [depth, step] of steps.entries()) {
    if (typeof value !== "object" || Array.isArray(value)) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[step];
    if (value === undefined || value === null) return { depth, isNull: value === null };
  }
  return [value];
}

const unusable = (coordinate: string, part: string): CachedError =>
  new CachedError(
    "CACHED_KEY_UNUSABLE",
    `\`${coordinate}\` is not cached: its key needs \`${part}\`, which is not there; return it from the parent's resolver, or say another \`key\``,
    { coordinate },
  );

/** The tags of one field call, by their names in the store. */
export function tagsOf(rule: FieldRule, roots: FieldRoots, keys: KeySpace): RequestTags {
  if (rule.tags.length === 0) return NO_TAGS;
  const early = rule.tags.filter(({ needsResult }) => !needsResult);
  const late = rule.tags.filter(({ needsResult }) => needsResult);
  const { args, source, context } = roots;
  const write = (templates: readonly TagTemplate[], result: unknown): string[] => {
    const tags = templates.flatMap((template) => writeTags(template, { args, source, context, result }));
    return [...new Set(tags)].map((tag) => keys.tag(tag));
  };
  return {
    rule: rule.tags.map(({ text }) => text).join("\n"),
    names: write(early, undefined),
    namesOf: late.length === 0 ? undefined : (value) => write(late, value),
  };
}

const NO_TAGS: RequestTags = { rule: "", names: [], namesOf: undefined };

/**
 * Arguments as a resolver would get them: defaults applied, enums and scalars parsed.
 * Errors: `CACHED_KEY_UNUSABLE` where they do not fit the schema.
 */
export function coerceArgs(rule: FieldRule, given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const refuse = (what: string): never => {
    throw new CachedError("CACHED_KEY_UNUSABLE", `\`${rule.coordinate}\`: ${what}`, { coordinate: rule.coordinate });
  };
  const known = rule.args.map(({ name }) => name);
  for (const name of Object.keys(given))
    if (!known.includes(name)) refuse(`it has no argument \`${name}\`; there are ${known.join(", ") || "none"}`);
  const args: Record<string, unknown> = {};
  for (const { name, type, defaultValue } of rule.args) {
    if (given[name] !== undefined)
      args[name] = coerceInputValue(given[name], type, () =>
        refuse(`argument \`${name}\`: \`${String(type)}\` was expected, something that does not fit came`),
      );
    else if (defaultValue !== undefined) args[name] = defaultValue;
  }
  return args;
}

export type AnyField = GraphQLField<unknown, unknown>;
