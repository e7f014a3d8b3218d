import { coerceInputValue, type GraphQLField, type GraphQLResolveInfo } from "graphql";
import { CachedError } from "../errors.js";
import type { Key, KeySpace } from "../keys/key.js";
import { type Path, type PathRoots, readPath } from "../keys/path.js";
import { type TagTemplate, writeTags } from "../keys/tag-template.js";
import type { Identity } from "../loader/identity.js";
import type { FieldRule } from "../schema-rules.js";
import type { RequestTags } from "../tier/request.js";
import { selectionOf } from "./selection.js";

/**
 * The inputs of a field's key: arguments with defaults applied, parent object, context, and the
 * resolver's info.
 */
export interface FieldRoots {
  readonly args: Readonly<Record<string, unknown>>;
  readonly source: unknown;
  readonly context: unknown;
  /** Undefined outside of an execution; `$selection` cannot be read then. */
  readonly info: GraphQLResolveInfo | undefined;
}

/**
 * Returns the key of one field call.
 * Throws `CACHED_KEY_UNUSABLE` if a part is missing and `CACHED_KEY_UNSERIALIZABLE` if a part has
 * no canonical text; both name the coordinate.
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
    const reason = cause instanceof CachedError ? cause.message : "the key input cannot be read";
    throw new CachedError(
      "CACHED_KEY_UNSERIALIZABLE",
      `\`${coordinate}\` is not cached: ${reason}; list the inputs that matter in \`key\``,
      {
        coordinate,
        cause,
      },
    );
  }
}

function defaultParts(rule: FieldRule, roots: FieldRoots): unknown {
  if (rule.isRoot) return [roots.args];
  const [id] = readPath(SOURCE_ID, roots as PathRoots);
  if (id === undefined) throw missingPart(rule.coordinate, SOURCE_ID.text);
  return [roots.args, id];
}

const SOURCE_ID: Path = { text: "$source.id", root: "source", steps: ["id"] };

function partOf(path: Path, roots: FieldRoots, coordinate: string): unknown {
  if (path.root === "selection") {
    if (roots.info === undefined) throw missingPart(coordinate, path.text);
    return selectionOf(roots.info);
  }
  if (path.root === "args" && path.steps.length === 0) return roots.args;
  const part = path.root === "args" ? argumentOf(path, roots.args) : readPath(path, roots as unknown as PathRoots)[0];
  if (part === undefined) throw missingPart(coordinate, path.text);
  return part;
}

/**
 * Returns the key part of an argument path. Resolvers can distinguish null, absent and every other
 * value at each step, so the key must too: a value is wrapped in an array, a missing one is
 * described by the depth at which it is missing. Returns undefined if the path leads into a list or
 * a leaf, since the key would then not depend on the argument.
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

const missingPart = (coordinate: string, part: string): CachedError =>
  new CachedError(
    "CACHED_KEY_UNUSABLE",
    `\`${coordinate}\` is not cached: its key needs \`${part}\`, which is missing; return it from the parent's resolver, or set another \`key\``,
    { coordinate },
  );

/** Returns the tags of one field call, by their names in the store. */
export function tagsOf(rule: FieldRule, roots: FieldRoots, keys: KeySpace): RequestTags {
  if (rule.tags.length === 0) return NO_TAGS;
  const beforeLoad = rule.tags.filter(({ needsResult }) => !needsResult);
  const afterLoad = rule.tags.filter(({ needsResult }) => needsResult);
  const { args, source, context } = roots;
  const write = (templates: readonly TagTemplate[], result: unknown): string[] => {
    const tags = templates.flatMap((template) => writeTags(template, { args, source, context, result }));
    return [...new Set(tags)].map((tag) => keys.tag(tag));
  };
  return {
    rule: rule.tags.map(({ text }) => text).join("\n"),
    names: write(beforeLoad, undefined),
    namesOf: afterLoad.length === 0 ? undefined : (value) => write(afterLoad, value),
  };
}

const NO_TAGS: RequestTags = { rule: "", names: [], namesOf: undefined };

/**
 * Returns arguments as a resolver would receive them: defaults applied, enums and scalars parsed.
 * Throws `CACHED_KEY_UNUSABLE` if they do not match the schema.
 */
export function coerceArgs(rule: FieldRule, given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const reject = (mistake: string): never => {
    throw new CachedError("CACHED_KEY_UNUSABLE", `\`${rule.coordinate}\`: ${mistake}`, { coordinate: rule.coordinate });
  };
  const names = rule.args.map(({ name }) => name);
  for (const name of Object.keys(given))
    if (!names.includes(name)) reject(`unknown argument \`${name}\`; known arguments: ${names.join(", ") || "none"}`);
  const args: Record<string, unknown> = {};
  for (const { name, type, defaultValue } of rule.args) {
    if (given[name] !== undefined)
      args[name] = coerceInputValue(given[name], type, () =>
        reject(`argument \`${name}\`: expected a value of type \`${String(type)}\`, got one that cannot be coerced`),
      );
    else if (defaultValue !== undefined) args[name] = defaultValue;
  }
  return args;
}

export type AnyField = GraphQLField<unknown, unknown>;
