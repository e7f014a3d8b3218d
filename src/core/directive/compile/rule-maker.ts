import { type GraphQLObjectType, getNamedType, isCompositeType } from "graphql";
import { compilePolicy, type PolicySettings, SCOPE_MISSING } from "../../policy/policy.js";
import type { FieldRule, KeyFields } from "../../schema-rules.js";
import { hasPublicHint } from "../hints/cache-control.js";
import { lookAhead } from "../look-ahead/look-ahead.js";
import { Outlines } from "../look-ahead/selection.js";
import { authMarkOf } from "../permissions/auth-marks.js";
import { type AnyField, namesOfRule } from "./field-rule.js";
import type { Findings, PolicyInputs } from "./findings.js";
import { keyTemplateOf } from "./key-template.js";
import { isStitched } from "./own-resolver.js";
import { REFERENCE, referenceKeyTemplates, referenceTagsOf, requiredPathsOf } from "./reference.js";
import { emptyTagReporter, TemplateReader } from "./template-reader.js";

/** Makes the rules of fields and of references to entity types. Reports why there is none. */
export class RuleMaker {
  readonly templates: TemplateReader;
  readonly #inputs: PolicyInputs;
  readonly #findings: Findings;
  readonly #outlines: Outlines;

  constructor(inputs: PolicyInputs, findings: Findings) {
    this.#inputs = inputs;
    this.#findings = findings;
    this.templates = new TemplateReader(inputs, findings);
    this.#outlines = new Outlines(inputs.parts.keys.writers.exact);
  }

  /** `entityKeys`: for a reference, the keys by which this subgraph is asked for the type. */
  make(
    parent: GraphQLObjectType,
    field: AnyField,
    { own, returned, hinted, isBelowPrivate = false }: FieldSettings,
    entityKeys: readonly KeyFields[] = [],
  ): FieldRule | undefined {
    const { schema, parts, shapes, entities } = this.#inputs;
    const isReference = field.name === REFERENCE;
    const before = this.#findings.mistakes.length;
    const coordinate = `${parent.name}.${field.name}`;
    const place = this.#findings.cachedAt(isReference ? parent.name : coordinate);
    const refuse = (text: string, code?: "CACHED_SCOPE_MISSING"): void => this.#findings.refuse(place, text, code);
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
      (mustSay ? this.#scopeMistake(parent, field) : undefined) ?? (isScopeMissing ? SCOPE_MISSING : undefined);
    if (scopeMistake !== undefined) refuse(scopeMistake, "CACHED_SCOPE_MISSING");
    const isRoot = parent === schema.getQueryType();
    const at = { parent, field, isRoot, place };
    const keyPaths = this.templates.keyPaths(at, ...this.#keyOf(parent, field, settings.key));
    const hasSelection = isCompositeType(getNamedType(field.type));
    const write = keys.writers.exact;
    // Resolvers of a stitched schema delegate, and to delegate is to look ahead.
    if (isStitched(schema) && !keyPaths.some(({ root }) => root === "selection"))
      keyPaths.push({ text: "$selection", root: "selection", steps: [], write, isOptional: false });
    const declaredTags = settings.tags ?? [];
    const entityTags = isReference ? referenceTagsOf(parent, entityKeys) : this.templates.parentTag(parent, keyPaths);
    const tags = this.templates.tags(at, [...declaredTags, ...entityTags]);
    if (isReference && this.#findings.mistakes.length === before)
      this.templates.checkReference(place, entityKeys, keyPaths);
    if (this.#findings.mistakes.length > before) return undefined;
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
        this.#outlines,
      ),
      reference: isReference
        ? { type: field.type, keys: settings.key === undefined ? entityKeys : undefined }
        : undefined,
    };
  }

  /** Returns what a key is made of: its paths, or undefined for the default, and what has to be among them. */
  #keyOf(
    parent: GraphQLObjectType,
    field: AnyField,
    key: readonly string[] | undefined,
  ): [key: readonly string[] | undefined, required: readonly string[]] {
    const isReference = field.name === REFERENCE;
    const fields = isReference ? Object.values(parent.getFields()) : [field];
    const required = fields.flatMap((one) => requiredPathsOf(this.#inputs.schema, parent, one));
    return [isReference ? (key ?? ["$source"]) : key, required];
  }

  /** Returns why a field must say its scope itself: nothing else was written with the mark in view. */
  #scopeMistake(parent: GraphQLObjectType, field: AnyField): string | undefined {
    const what = field.name === REFERENCE ? "type" : "field";
    const mark = authMarkOf(this.#inputs.schema, parent, field);
    return mark === undefined
      ? undefined
      : `\`scope\`: expected a declaration on the ${what} itself, since ${mark}, got nothing; set scope: PRIVATE, or scope: PUBLIC if every caller allowed to see the ${what} gets the same value and its resolver does not check that`;
  }
}

export interface FieldSettings {
  readonly own: PolicySettings | undefined;
  readonly returned?: PolicySettings | undefined;
  readonly hinted?: PolicySettings | undefined;
  /** Whether only PRIVATE values can be its parents. Default: false. */
  readonly isBelowPrivate?: boolean;
}
