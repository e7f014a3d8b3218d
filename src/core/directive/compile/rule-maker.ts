import { type GraphQLObjectType, getNamedType, isCompositeType } from "graphql";
import type { TagTemplate } from "../../keys/tag-template.js";
import { compilePolicy, type PolicySettings, SCOPE_MISSING } from "../../policy/policy.js";
import type { FieldRule, KeyFields, KeyPath } from "../../schema-rules.js";
import { hasPublicHint } from "../hints/cache-control.js";
import { lookAhead } from "../look-ahead/look-ahead.js";
import { authMarkOf } from "../permissions/auth-marks.js";
import { type AnyField, isInKey, pathsIn } from "./field-rule.js";
import { isStitched } from "./own-resolver.js";
import { REFERENCE, referenceKeyTemplates, referenceTagsOf, requiredPathsOf } from "./reference.js";
import type { SchemaReading } from "./schema-reading.js";
import { checkReference, emptyTagReporter, parentTag, readKey, readTags } from "./template-reader.js";
import { keyTemplateOf } from "./variant.js";

/** Reports why there is none. `entityKeys`: by which this subgraph is asked for the type. */
export function makeRule(
  reading: SchemaReading,
  parent: GraphQLObjectType,
  field: AnyField,
  { own, returned, hinted, isPrivateByDefault = false }: FieldSettings,
  entityKeys: readonly KeyFields[] = [],
): FieldRule | undefined {
  const { schema, parts, shapes, entities } = reading.inputs;
  const isReference = field.name === REFERENCE;
  const before = reading.mistakes.length;
  const coordinate = `${parent.name}.${field.name}`;
  const place = reading.cachedAt(isReference ? parent.name : coordinate);
  const refuse = (text: string, code?: "CACHED_SCOPE_MISSING"): void => reading.refuse(place, text, code);
  const { defaults, identify, keys } = parts;
  const { settings, policy, versions, mistakes } = compilePolicy({
    declared: [own, returned],
    hinted,
    defaults: isPrivateByDefault ? { ...defaults, scope: "PRIVATE" } : defaults,
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
  const mark = mustSay ? authMarkOf(schema, parent, field) : undefined;
  if (mark !== undefined) refuse(scopeUnderMark(mark, isReference ? "type" : "field"), "CACHED_SCOPE_MISSING");
  else if (isScopeMissing) refuse(SCOPE_MISSING, "CACHED_SCOPE_MISSING");
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
  const tags = readTags(at, declaredTags, entityTags);
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
    reportEmptyTag: emptyTagReporter(place, declaredTags, parts),
    entities: entities?.finderOf(field.type, coordinate),
    args: field.args,
    queryUse: lookAhead(
      {
        coordinate,
        hasSelection,
        keyTexts: keyPaths.map(({ text }) => text),
        argumentPaths: argumentPathsOf(field, keyPaths, isReference),
        isReference,
      },
      reading.outlines,
    ),
    reference: isReference
      ? { type: field.type, keys: settings.key === undefined ? entityKeys : undefined }
      : undefined,
  };
}

/** Undefined if the key contains all arguments of the field. Those of a reference are of others. */
function argumentPathsOf({ args }: AnyField, keyPaths: readonly KeyPath[], isReference: boolean) {
  if (!isReference && args.every(({ name }) => isInKey(keyPaths, "args", [name]))) return undefined;
  return keyPaths.filter(({ root }) => root === "args").map(({ steps }) => steps);
}

/** Nothing else was written with the mark of permission in view. */
const scopeUnderMark = (mark: string, what: string): string =>
  `\`scope\`: expected a declaration on the ${what} itself, since ${mark}, got nothing; set scope: PRIVATE, or scope: PUBLIC if every caller allowed to see the ${what} gets the same value and its resolver does not check that`;

/** What a rule says of key and tags. Tags of a reference can be made from more than its key. */
function namesOfRule(keyPaths: readonly KeyPath[], tags: readonly TagTemplate[], isReference: boolean) {
  const knownTags = tags.filter(({ needsResult }) => !needsResult);
  const inTags = pathsIn(knownTags);
  // Those in other tags are read when the load begins: see `tagsBeforeLoad`.
  const inContext = [...keyPaths, ...inTags].filter(({ root }) => root === "context");
  return {
    keyPaths,
    tags,
    knownTags,
    resultTags: tags.filter(({ needsResult }) => needsResult),
    hasOwnTags: isReference || !inTags.every(({ root, steps }) => isInKey(keyPaths, root, steps)),
    declaresSelection: keyPaths.some(({ root }) => root === "selection"),
    contextPaths: [...new Map(inContext.map((path) => [path.text, path])).values()],
  } satisfies Partial<FieldRule>;
}

export interface FieldSettings {
  readonly own: PolicySettings | undefined;
  readonly returned?: PolicySettings | undefined;
  readonly hinted?: PolicySettings | undefined;
  /** Whether its parents, or what it can return, are PRIVATE. Default: false. */
  readonly isPrivateByDefault?: boolean;
}
