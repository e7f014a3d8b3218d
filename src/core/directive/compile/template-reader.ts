import { type GraphQLObjectType, getNullableType, isInputObjectType } from "graphql";
import { CachedError } from "../../base/errors.js";
import type { Input } from "../../base/graphql-version.js";
import { missingPropertyOf, parsePath } from "../../keys/path.js";
import {
  mistakeInTemplate,
  parseTagTemplate,
  repairedPath,
  repairedTemplate,
  type TagTemplate,
} from "../../keys/tag-template.js";
import type { EmptyTagReporter, KeyFields, KeyPath } from "../../schema-rules.js";
import type { Channel } from "../../telemetry/channel.js";
import type { AnyField } from "./field-rule.js";
import type { Findings, Place, PolicyInputs } from "./findings.js";
import { keyPathsOf } from "./key-set.js";
import { mistakeInPath, type PathPlace } from "./path-checks.js";
import { REFERENCE, representationWriter } from "./reference.js";
import { isIdType, typeAt, ValueWriters } from "./value-types.js";

export class TemplateReader {
  readonly #inputs: PolicyInputs;
  readonly #findings: Findings;
  readonly #argumentWriters: ValueWriters;
  readonly #otherWriters: ValueWriters;

  constructor(inputs: PolicyInputs, findings: Findings) {
    this.#inputs = inputs;
    this.#findings = findings;
    const { exact, byText } = inputs.parts.keys.writers;
    this.#argumentWriters = new ValueWriters(exact);
    this.#otherWriters = new ValueWriters(byText);
  }

  /** `required`: the paths in the parent that a value is computed from by its `@requires`. */
  keyPaths(at: TemplatePlace, given: readonly string[] | undefined, required: readonly string[]): KeyPath[] {
    const { parent, field, isRoot, place } = at;
    // Exclusions alone are from the default.
    const excluded = given?.every(isExclusion) === true ? given : [];
    const key = excluded.length > 0 ? undefined : given;
    if (key === undefined && !isRoot && this.#inputs.idFields.in(parent) === undefined)
      this.#findings.refuse(
        place,
        `\`key\`: the default key needs \`${parent.name}.id\`, which does not exist; name what identifies the parent, such as key: ["$args", "$source.code"], or for all of its fields, in \`idFields\` of applyCached`,
      );
    const requiredTexts = [...new Set(required)].map((path) => `$source.${path}`);
    const byDefault = isRoot ? ["$args"] : ["$args", ...this.#idPaths(parent), ...requiredTexts];
    if (key !== undefined) this.#checkRequired(place, requiredTexts, key);
    return this.#withoutExcluded(at, [...(key ?? byDefault), ...excluded]).flatMap((text) => {
      const path = parsePath(text);
      if (path === undefined || path.root === "result" || path.steps.includes("[]")) {
        this.#findings.refuse(
          place,
          `\`key\`: expected paths such as $args.id, $source.id, $context.locale or $selection, got ${JSON.stringify(text)}${didYouMean(field, repairedPath(text))}`,
        );
        return [];
      }
      const mistake = this.#mistakeIn(path, "key", at);
      if (mistake !== undefined) this.#findings.refuse(place, mistake);
      const writers = path.root === "args" ? this.#argumentWriters : this.#otherWriters;
      const isWhole = path.steps.length === 0;
      const write =
        path.root === "args" && isWhole ? writers.ofArguments(field) : writers.of(typeAt(path, parent, field));
      const isReference = field.name === REFERENCE && path.root === "source" && isWhole;
      const isOptional = requiredTexts.includes(text);
      return [{ ...path, write: isReference ? representationWriter(write) : write, isOptional }];
    });
  }

  /** Returns the paths of a key with all other arguments, or other fields of an input object, in the place of `$args` and what follows a `!`. */
  #withoutExcluded(at: TemplatePlace, texts: readonly string[]): readonly string[] {
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
      this.#findings.refuse(
        at.place,
        `\`key\`: expected \`!\` before the path of an argument of \`$args\`, or of a field of its input object, and \`$args\` in the key, got ${JSON.stringify(`!${text}`)}`,
      );
    return spread;
  }

  #idPaths({ name }: GraphQLObjectType): string[] {
    return this.#inputs.idFields.of(name).map((field) => `$source.${field}`);
  }

  tags(at: TemplatePlace, tags: readonly string[]): TagTemplate[] {
    const { parent, field, place } = at;
    const isOfValue = !place.source.endsWith("invalidates");
    // Sorted, so that releases which differ in the order of their tags read each other's entries.
    return [...new Set(tags)].sort().flatMap((text) => {
      const template = parseTagTemplate(text);
      const mistake =
        template === undefined
          ? `\`tags\`: expected tags such as Movie:{$args.id} or Movie:{$result[].id}, got ${JSON.stringify(text)}${didYouMean(field, repairedTemplate(text))}`
          : mistakeInTemplate(text, isOfValue);
      if (mistake !== undefined) this.#findings.refuse(place, mistake);
      if (template === undefined || mistake !== undefined) return [];
      const pieces = template.pieces.map((piece) => {
        if (typeof piece === "string") return piece;
        const inPath = this.#mistakeIn(piece, "tag", at);
        if (inPath !== undefined) this.#findings.refuse(place, inPath);
        return { ...piece, isId: isIdType(typeAt(piece, parent, field)) };
      });
      return [{ ...template, pieces }];
    });
  }

  /** Returns the tag of the entity that a field belongs to, unless entities share entries: each would write its own into them, in turn. */
  parentTag(parent: GraphQLObjectType, keyPaths: readonly KeyPath[]): readonly string[] {
    const { entities, idFields } = this.#inputs;
    if (entities?.isEntity(parent) !== true) return [];
    const isInKey = (name: string): boolean =>
      keyPaths.some(
        ({ root, steps }) => root === "source" && (steps.length === 0 || (steps.length === 1 && steps[0] === name)),
      );
    return idFields.of(parent.name).every(isInKey) ? [idFields.templateOf(parent.name, "source")] : [];
  }

  /** Reports a `key` that does not say which entity a reference is to: references to others would share entries. */
  checkReference(place: Place, entityKeys: readonly KeyFields[], keyPaths: readonly KeyPath[]): void {
    const sources = keyPaths.filter(({ root }) => root === "source").map(({ steps }) => steps.join("."));
    const isCovered = (path: string): boolean =>
      sources.some((source) => source === "" || source === path || path.startsWith(`${source}.`));
    const keys = entityKeys.map(keyPathsOf);
    if (keys.some((paths) => paths.every(isCovered))) return;
    const choices = keys.map((paths) => paths.map((path) => `$source.${path}`).join(" and ")).join(", or ");
    this.#findings.refuse(
      place,
      `\`key\`: expected the key of the entity for \`${REFERENCE}\`, ${choices}, got ${keyPaths.map(({ text }) => text).join(", ") || "nothing"}; add it, or remove \`key\`: the default is the whole representation`,
    );
  }

  /** Reports a `key` without what the value is computed from: one representation would decide about the value for all others. */
  #checkRequired(place: Place, required: readonly string[], key: readonly string[]): void {
    if (required.every((path) => key.some((text) => path === text || path.startsWith(`${text}.`)))) return;
    const last = required.at(-1) as string;
    const fields = required.length === 1 ? last : `${required.slice(0, -1).join(", ")} and ${last}`;
    this.#findings.refuse(
      place,
      `\`key\`: expected the fields of \`@requires\`, ${fields}, got ${key.join(", ") || "nothing"}; add them, or remove \`key\``,
    );
  }

  #mistakeIn(path: Parameters<typeof mistakeInPath>[0], use: PathPlace["use"], at: TemplatePlace): string | undefined {
    const { schema } = this.#inputs;
    const otherProperties = at.place.source.endsWith("invalidates")
      ? "call cache.invalidateTags in the resolver"
      : "add the tag with resultControl(info).set({ tags })";
    return mistakeInPath(path, { ...at, use, schema, otherProperties });
  }
}

const isExclusion = (text: string): boolean => text.startsWith("!");

export interface TemplatePlace {
  readonly parent: GraphQLObjectType;
  readonly field: AnyField;
  readonly isRoot: boolean;
  readonly place: Place;
}

/** `text`: a key path or a tag template; without effect if it names an argument that the field does not have. */
function didYouMean({ args }: AnyField, text: string | undefined): string {
  const named = [...(text ?? "").matchAll(/\$args\.(\w+)/g)].map(([, name]) => name);
  const isPossible = named.every((name) => args.some((argument) => argument.name === name));
  return text === undefined || !isPossible ? "" : `; did you mean ${JSON.stringify(text)}?`;
}

/**
 * Returns a function that reports the templates of one field that yield no tag because a parent or a result lacks the
 * property that they name. Arguments and the context may lack theirs, and a representation the keys that it does not
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
