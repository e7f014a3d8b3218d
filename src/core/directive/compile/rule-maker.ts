import { type GraphQLObjectType, type GraphQLSchema, getNamedType, isCompositeType } from "graphql";
import { compilePolicy, type PolicySettings, SCOPE_MISSING } from "../../policy/policy.js";
import type { FieldRule, KeyFields } from "../../schema-rules.js";
import { hasPublicHint } from "../hints/cache-control.js";
import { lookAhead } from "../look-ahead/look-ahead.js";
import { authMarkOf } from "../permissions/auth-marks.js";
import { type AnyField, namesOfRule } from "./field-rule.js";
import { keyTemplateOf } from "./key-template.js";
import { isStitched } from "./own-resolver.js";
import { REFERENCE, referenceKeyTemplates, referenceTagsOf, requiredPathsOf } from "./reference.js";
import type { SchemaReading } from "./schema-reading.js";
import { checkReference, emptyTagReporter, parentTag, readKey, readTags } from "./template-reader.js";

/**
 * Makes the rule of a field, or of references to an entity type. Reports why there is none.
 * `entityKeys`: the keys by which this subgraph is asked for the type.
 */
export function makeRule(
  reading: SchemaReading,
  parent: GraphQLObjectType,
  field: AnyField,
  { own, returned, hinted, isBelowPrivate = false }: FieldSettings,
  entityKeys: readonly KeyFields[] = [],
): FieldRule | undefined {
  const { schema, parts, shapes, entities } = reading.inputs;
  const isReference = field.name === REFERENCE;
  const before = reading.mistakes.length;
  const coordinate = `${parent.name}.${field.name}`;
  const place = reading.cachedAt(isReference ? parent.name : coordinate);
  const refuse = (text: string, code?: "CACHED_SCOPE_MISSING"): void => reading.refuse(place, text, code);
  const { defaults, identify, keys, channel } = parts;
  const { settings, policy, versions, mistakes } = compilePolicy({
    declared: [own, returned],
    hinted,
    defaults: isBelowPrivate ? { ...defaults, scope: "PRIVATE" } : defaults,
  });
  const isScopeMissing = mistakes.includes(SCOPE_MISSING);
  for (const mistake of mistakes) if (mistake !== SCOPE_MISSING) refuse(mistake);
  if (settings.maxAge === 0 && mistakes.length === 0) return undefined;
  if (policy.scope === "PRIVATE" && identify === undefined)
    refuse(
      "`scope`: PRIVATE requires the `identify` option; pass createCache({ identify: (context) => context.userId })",
      "CACHED_SCOPE_MISSING",
    );
  const isPublicItself = own?.scope === "PUBLIC" || hasPublicHint(field, hinted);
  const mustSay = isScopeMissing || (policy.scope === "PUBLIC" && !isPublicItself);
  const scopeMistake =
    (mustSay ? scopeMistakeIn(schema, parent, field) : undefined) ?? (isScopeMissing ? SCOPE_MISSING : undefined);
  if (scopeMistake !== undefined) refuse(scopeMistake, "CACHED_SCOPE_MISSING");
  const isRoot = parent === schema.getQueryType();
  const at = { reading, parent, field, isRoot, place };
  const required = (isReference ? Object.values(parent.getFields()) : [field]).flatMap((one) =>
    requiredPathsOf(schema, parent, one),
  );
  const keyPaths = readKey(at, settings.key ?? (isReference ? ["$source"] : undefined), required);
  const hasSelection = isCompositeType(getNamedType(field.type));
  const write = keys.writers.exact;
  // Resolvers of a stitched schema delegate, and to delegate is to look ahead.
  if (isStitched(schema) && !keyPaths.some(({ root }) => root === "selection"))
    keyPaths.push({ text: "$selection", root: "selection", steps: [], write, isOptional: false });
  const declaredTags = settings.tags ?? [];
  const entityTags = isReference ? referenceTagsOf(parent, entityKeys) : parentTag(at, keyPaths);
  const tags = readTags(at, [...declaredTags, ...entityTags]);
  if (isReference && reading.mistakes.length === before) checkReference(at, entityKeys, keyPaths);
  if (reading.mistakes.length > before) return undefined;
  return {
    coordinate,
    policy,
    settings,
    variant: keys.variant({
      kind: "field",
      shape: shapes.of(field.type),
      versions,
      keyTemplate: [
        ...keyTemplateOf(keyPaths, policy.scope, parent, field, write),
        ...referenceKeyTemplates(parent, entityKeys),
      ],
      tagTemplates: tags.map(({ text }) => text),
    }),
    isRoot,
    ...namesOfRule(keyPaths, tags, isReference),
    reportEmptyTag: emptyTagReporter(place, declaredTags, channel),
    entities: entities?.finderOf(field.type, coordinate),
    args: field.args,
    queryUse: lookAhead(
      { coordinate, hasSelection, keyTexts: keyPaths.map(({ text }) => text), isReference },
      reading.outlines,
    ),
    reference: isReference
      ? { type: field.type, keys: settings.key === undefined ? entityKeys : undefined }
      : undefined,
  };
}

/**
 * Returns why a field must say its scope itself: nothing else was written with the mark in view.
 */
function scopeMistakeIn(schema: GraphQLSchema, parent: GraphQLObjectType, field: AnyField): string | undefined {
  const what = field.name === REFERENCE ? "type" : "field";
  const mark = authMarkOf(schema, parent, field);
  return mark === undefined
    ? undefined
    : `\`scope\`: expected a declaration on the ${what} itself, since ${mark}, got nothing; set scope: PRIVATE, or scope: PUBLIC if every caller allowed to see the ${what} gets the same value and its resolver does not check that`;
}

export interface FieldSettings {
  readonly own: PolicySettings | undefined;
  readonly returned?: PolicySettings | undefined;
  readonly hinted?: PolicySettings | undefined;
  /** Whether only PRIVATE values can be its parents. Default: false. */
  readonly isBelowPrivate?: boolean;
}
