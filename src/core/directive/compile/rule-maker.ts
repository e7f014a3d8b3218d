import { type GraphQLObjectType, getNamedType, isCompositeType } from "graphql";
import { compilePolicy, type PolicySettings } from "../../policy/policy.js";
import type { FieldRule, KeyFields } from "../../schema-rules.js";
import { hasPublicHint } from "../hints/cache-control.js";
import { LookAhead } from "../look-ahead/look-ahead.js";
import { AuthMarks } from "../permissions/auth-marks.js";
import { type AnyField, namesOfRule } from "./field-rule.js";
import type { Findings, Place, PolicyInputs } from "./findings.js";
import { keyTemplateOf } from "./key-template.js";
import { isStitched } from "./own-resolver.js";
import { REFERENCE, referenceField, referenceKeyTemplates, referenceTagsOf, requiredPathsOf } from "./reference.js";
import { emptyTagReporter, TemplateReader } from "./template-reader.js";

/** Makes the rules of fields and of references to entity types. Reports why there is none. */
export class RuleMaker {
  readonly templates: TemplateReader;
  readonly #inputs: PolicyInputs;
  readonly #findings: Findings;
  readonly #authMarks: AuthMarks;
  /** The PUBLIC fields for which nothing but the defaults can have said so. */
  readonly #unscoped: Place[] = [];

  constructor(inputs: PolicyInputs, findings: Findings) {
    this.#inputs = inputs;
    this.#findings = findings;
    this.templates = new TemplateReader(inputs, findings);
    this.#authMarks = new AuthMarks(inputs.schema, inputs.parts.isAuthDirective, Object.values(inputs.names));
  }

  ofField(parent: GraphQLObjectType, field: AnyField, settings: FieldSettings): FieldRule | undefined {
    return this.#make(parent, field, settings);
  }

  /** `entityKeys`: the keys by which this subgraph is asked for the type. */
  ofReference(type: GraphQLObjectType, own: PolicySettings, entityKeys: readonly KeyFields[]): FieldRule | undefined {
    return this.#make(type, referenceField(type), { own }, entityKeys);
  }

  #make(
    parent: GraphQLObjectType,
    field: AnyField,
    { own, returned, hinted }: FieldSettings,
    entityKeys: readonly KeyFields[] = [],
  ): FieldRule | undefined {
    const { schema, parts, shapes, entities } = this.#inputs;
    const isReference = field.name === REFERENCE;
    const before = this.#findings.mistakes.length;
    const coordinate = `${parent.name}.${field.name}`;
    const place = this.#findings.cachedAt(isReference ? parent.name : coordinate);
    const refuse = (text: string, code?: "CACHED_SCOPE_MISSING"): void => this.#findings.refuse(place, text, code);
    const { profiles, defaults, identify, keys, channel, tagMistakes } = parts;
    const { settings, policy, versions, declaresScope, mistakes } = compilePolicy({
      declared: [own, returned],
      profiles,
      hinted,
      defaults,
    });
    for (const mistake of mistakes) refuse(mistake);
    if (settings.maxAge === 0 && mistakes.length === 0) return undefined;
    if (policy.scope === "PRIVATE" && identify === undefined)
      refuse(
        "`scope`: PRIVATE requires the `identify` option; pass createCache({ identify: (context) => context.userId })",
        "CACHED_SCOPE_MISSING",
      );
    const isPublicItself = own?.scope === "PUBLIC" || hasPublicHint(field, hinted);
    const scopeMistake = policy.scope === "PUBLIC" ? this.#scopeMistake(parent, field, isPublicItself) : undefined;
    if (scopeMistake !== undefined) refuse(`\`scope\`: ${scopeMistake}`, "CACHED_SCOPE_MISSING");
    else if (policy.scope === "PUBLIC" && !declaresScope) this.#unscoped.push(place);
    const isRoot = parent === schema.getQueryType();
    const at = { parent, field, isRoot, place };
    const keyPaths = this.templates.keyPaths(at, ...this.#keyOf(parent, field, settings.key));
    const declaredTags = settings.tags ?? [];
    const entityTags = isReference ? referenceTagsOf(parent, entityKeys) : this.templates.parentTag(parent, keyPaths);
    const tags = this.templates.tags(at, [...declaredTags, ...entityTags]);
    if (isReference && this.#findings.mistakes.length === before)
      this.templates.checkReference(place, entityKeys, keyPaths);
    const hasSelection = isCompositeType(getNamedType(field.type));
    const ofNames = namesOfRule(keyPaths, tags, isReference);
    const { declaresSelection } = ofNames;
    if (this.#findings.mistakes.length > before) return undefined;
    const write = keys.writers.exact;
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
      ...ofNames,
      reportEmptyTag: emptyTagReporter(place, declaredTags, tagMistakes),
      entities: entities?.finderOf(field.type, coordinate),
      args: field.args,
      canKeySelection: hasSelection || declaresSelection,
      queryUse: new LookAhead(
        {
          coordinate,
          hasSelection,
          declaresSelection,
          isStitched: isStitched(schema),
          isReference,
        },
        channel,
        write,
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

  /** Returns why a field must not be PUBLIC as it is. Only the field itself can declare so under an auth mark: nothing else was written with it in view. */
  #scopeMistake(parent: GraphQLObjectType, field: AnyField, isPublicItself: boolean): string | undefined {
    const inside = this.#authMarks.checkedInside(parent, field);
    if (inside !== undefined)
      return `expected PRIVATE, since ${inside.checkedBy} checks ${inside.text} in the resolver of the field, where a hit would skip the check, got ${isPublicItself ? "PUBLIC" : "nothing"}; set scope: PRIVATE, or remove \`@${this.#inputs.names.directive}\` and read shared data with cache.loader in the resolver, after the check`;
    if (isPublicItself) return undefined;
    const what = field.name === REFERENCE ? "type" : "field";
    const cover = this.#authMarks.coverOf(parent, field);
    return cover === undefined
      ? undefined
      : `expected a declaration on the ${what} itself, since ${cover}, got nothing; set scope: PRIVATE, or scope: PUBLIC if every caller allowed to see the ${what} gets the same value`;
  }

  /** Reports the fields without a scope as one mistake, if each has to have one and nothing else is wrong. */
  checkUnscoped(): void {
    const { first } = this.#authMarks;
    const [place, ...others] = this.#unscoped;
    const isRequired = this.#inputs.parts.requireScope ?? first !== undefined;
    if (place === undefined || this.#findings.mistakes.length > 0 || !isRequired) return;
    const why = first === undefined ? "`requireScope` is set" : `the schema has ${first}`;
    const named = others.slice(0, MAX_NAMED).map(({ coordinate }) => `\`${coordinate}\``);
    if (others.length > MAX_NAMED) named.push(`${others.length - MAX_NAMED} more`);
    const got = named.length === 0 ? "nothing" : `nothing, and nothing on ${named.join(", ")}`;
    this.#findings.refuse(
      place,
      `\`scope\`: expected a declaration, since ${why}, got ${got}; set scope: PUBLIC where every caller gets the same value, otherwise scope: PRIVATE, or turn this check off with createCache({ privacy: { requireScope: false } })`,
      "CACHED_SCOPE_MISSING",
    );
  }
}

const MAX_NAMED = 20;

export interface FieldSettings {
  readonly own: PolicySettings | undefined;
  readonly returned?: PolicySettings | undefined;
  readonly hinted?: PolicySettings | undefined;
}
