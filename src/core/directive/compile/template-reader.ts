import { getNullableType, isInputObjectType } from "graphql";
import { CachedError } from "../../base/errors.js";
import type { Input } from "../../base/graphql-version.js";
import { missingPropertyOf, parsePath } from "../../keys/path.js";
import {
  mistakeInTag,
  parseTagTemplate,
  repairedPath,
  repairedTemplate,
  sampleOf,
  type TagTemplate,
} from "../../keys/tag-template.js";
import type { EmptyTagReporter, KeyFields, KeyPath } from "../../schema-rules.js";
import type { Channel } from "../../telemetry/channel.js";
import type { AnyField } from "./field-rule.js";
import { keyPathsOf } from "./key-set.js";
import { mistakeInPath, type TemplatePlace } from "./path-checks.js";
import { REFERENCE, representationWriter } from "./reference.js";
import type { Place } from "./schema-reading.js";
import { isIdType, typeAt } from "./value-types.js";

/** `required`: the paths in the parent that a value is computed from by its `@requires`. */
export function readKey(
  at: TemplatePlace,
  given: readonly string[] | undefined,
  required: readonly string[],
): KeyPath[] {
  const { reading, parent, field, isRoot, place } = at;
  const { idFields } = reading.inputs;
  // Exclusions alone are from the default.
  const excluded = given?.every(isExclusion) === true ? given : [];
  const key = excluded.length > 0 ? undefined : given;
  if (key === undefined && !isRoot && idFields.in(parent) === undefined)
    reading.refuse(
      place,
      `\`key\`: the default key needs \`${parent.name}.id\`, which does not exist; name what identifies the parent, such as key: ["$args", "$source.code"], or for all of its fields, in \`idFields\` of applyCached`,
    );
  const requiredTexts = [...new Set(required)].map((path) => `$source.${path}`);
  const byDefault = isRoot
    ? ["$args"]
    : ["$args", ...idFields.of(parent.name).map((name) => `$source.${name}`), ...requiredTexts];
  if (key !== undefined) checkRequired(at, requiredTexts, key);
  return withoutExcluded(at, [...(key ?? byDefault), ...excluded]).flatMap((text) => {
    const path = parsePath(text);
    if (path === undefined || path.root === "result" || path.steps.includes("[]")) {
      reading.refuse(
        place,
        `\`key\`: expected paths such as $args.id, $source.id, $context.locale or $selection, got ${JSON.stringify(text)}${didYouMean(field, repairedPath(text))}`,
      );
      return [];
    }
    const mistake = mistakeInPath(path, "key", at);
    if (mistake !== undefined) reading.refuse(place, mistake);
    const writers = path.root === "args" ? reading.argumentWriters : reading.otherWriters;
    const isWhole = path.steps.length === 0;
    const write =
      path.root === "args" && isWhole ? writers.ofArguments(field) : writers.of(typeAt(path, parent, field));
    const isReference = field.name === REFERENCE && path.root === "source" && isWhole;
    const isOptional = requiredTexts.includes(text);
    return [{ ...path, write: isReference ? representationWriter(write) : write, isOptional }];
  });
}

/**
 * Puts all other arguments, or other fields of an input object, in the place of `$args` and what
 * follows a `!`.
 */
function withoutExcluded(at: TemplatePlace, texts: readonly string[]): readonly string[] {
  const excluded = texts.filter(isExclusion).map((text) => text.slice(1));
  if (excluded.length === 0) return texts;
  const met = new Set<string>();
  const others = (path: string, inputs: readonly Input[]): string[] =>
    inputs.flatMap(({ name, type }) => {
      const text = `${path}.${name}`;
      if (excluded.includes(text)) met.add(text);
      if (met.has(text)) return [];
      const object = getNullableType(type);
      const hasExcluded = isInputObjectType(object) && excluded.some((one) => one.startsWith(`${text}.`));
      return hasExcluded ? others(text, Object.values(object.getFields())) : [text];
    });
  const spread = texts.flatMap((text) =>
    text === "$args" ? others(text, at.field.args) : isExclusion(text) ? [] : [text],
  );
  for (const text of excluded.filter((one) => !met.has(one)))
    at.reading.refuse(
      at.place,
      `\`key\`: expected \`!\` before the path of an argument of \`$args\`, or of a field of its input object, and \`$args\` in the key, got ${JSON.stringify(`!${text}`)}`,
    );
  return spread;
}

export function readTags(at: TemplatePlace, tags: readonly string[]): TagTemplate[] {
  const { reading, parent, field, place } = at;
  const isOfValue = !place.source.endsWith("invalidates");
  // Sorted, so that releases which differ in the order of their tags read each other's entries.
  return [...new Set(tags)].sort().flatMap((text) => {
    const template = parseTagTemplate(text);
    const mistake =
      template === undefined
        ? `\`tags\`: expected tags such as Movie:{$args.id} or Movie:{$result[].id}, got ${JSON.stringify(text)}${didYouMean(field, repairedTemplate(text))}`
        : mistakeInTag(sampleOf(text), isOfValue);
    if (mistake !== undefined) reading.refuse(place, mistake);
    if (template === undefined || mistake !== undefined) return [];
    const pieces = template.pieces.map((piece) => {
      if (typeof piece === "string") return piece;
      const inPath = mistakeInPath(piece, "tag", at);
      if (inPath !== undefined) reading.refuse(place, inPath);
      return { ...piece, isId: isIdType(typeAt(piece, parent, field)) };
    });
    return [{ ...template, pieces }];
  });
}

/**
 * Returns the tag of the entity that a field belongs to, unless entities share entries: each would
 * write its own into them, in turn.
 */
export function parentTag({ reading, parent }: TemplatePlace, keyPaths: readonly KeyPath[]): readonly string[] {
  const { entities, idFields } = reading.inputs;
  if (entities?.isEntity(parent) !== true) return [];
  const isInKey = (name: string): boolean =>
    keyPaths.some(
      ({ root, steps }) => root === "source" && (steps.length === 0 || (steps.length === 1 && steps[0] === name)),
    );
  return idFields.of(parent.name).every(isInKey) ? [idFields.templateOf(parent.name, "source")] : [];
}

/** Without the key of the entity in `key`, references to different entities would share entries. */
export function checkReference(
  { reading, place }: TemplatePlace,
  entityKeys: readonly KeyFields[],
  keyPaths: readonly KeyPath[],
): void {
  const sources = keyPaths.filter(({ root }) => root === "source").map(({ steps }) => steps.join("."));
  const isCovered = (path: string): boolean =>
    sources.some((source) => source === "" || source === path || path.startsWith(`${source}.`));
  const keys = entityKeys.map(keyPathsOf);
  if (keys.some((paths) => paths.every(isCovered))) return;
  const choices = keys.map((paths) => paths.map((path) => `$source.${path}`).join(" and ")).join(", or ");
  reading.refuse(
    place,
    `\`key\`: expected the key of the entity for \`${REFERENCE}\`, ${choices}, got ${keyPaths.map(({ text }) => text).join(", ") || "nothing"}; add it, or remove \`key\`: the default is the whole representation`,
  );
}

/** Without these in `key`, one representation would decide about the value for all others. */
function checkRequired({ reading, place }: TemplatePlace, required: readonly string[], key: readonly string[]): void {
  if (required.every((path) => key.some((text) => path === text || path.startsWith(`${text}.`)))) return;
  const last = required.at(-1) as string;
  const fields = required.length === 1 ? last : `${required.slice(0, -1).join(", ")} and ${last}`;
  reading.refuse(
    place,
    `\`key\`: expected the fields of \`@requires\`, ${fields}, got ${key.join(", ") || "nothing"}; add them, or remove \`key\``,
  );
}

const isExclusion = (text: string): boolean => text.startsWith("!");

/** Empty if the key path or tag template names an argument that the field does not have. */
function didYouMean({ args }: AnyField, text: string | undefined): string {
  const named = [...(text ?? "").matchAll(/\$args\.(\w+)/g)].map(([, name]) => name);
  const isPossible = named.every((name) => args.some((argument) => argument.name === name));
  return text === undefined || !isPossible ? "" : `; did you mean ${JSON.stringify(text)}?`;
}

/**
 * Reports the templates that yield no tag because a parent or a result lacks the property that they
 * name. Arguments and the context may lack theirs, and a representation the keys that it does not
 * use: the templates that follow from a type are not among those `declared`.
 */
export function emptyTagReporter(
  { source, coordinate }: Place,
  declared: readonly string[],
  channel: Channel,
): EmptyTagReporter {
  return ({ text, pieces }, roots) => {
    if (!declared.includes(text)) return;
    for (const piece of pieces) {
      const isOfObjects = typeof piece !== "string" && "root" in piece && ["source", "result"].includes(piece.root);
      const missing = isOfObjects ? missingPropertyOf(piece, roots) : undefined;
      if (missing === undefined) continue;
      const { at, property } = missing;
      const mistake = `${source} on \`${coordinate}\`: \`tags\`: \`${text}\` yields no tag, since the value at \`${at}\` has no property \`${property}\`; correct the path, or return an object with it`;
      channel.mistaken(coordinate, new CachedError("CACHED_POLICY_INVALID", mistake, { coordinate }));
      return;
    }
  };
}
