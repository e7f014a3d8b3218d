import {
  type GraphQLNamedType,
  type GraphQLOutputType,
  getNamedType,
  getNullableType,
  isCompositeType,
  isListType,
  isNonNullType,
  isObjectType,
  Kind,
  type Location,
} from "graphql";
import { type Cache, createCache } from "../../cache.js";
import { CachedError } from "../../core/base/errors.js";
import { didYouMean } from "../../core/base/option-names.js";
import { resolvePolicies } from "../../core/directive/compile/apply-options.js";
import type { DirectiveNames } from "../../core/directive/compile/directive-names.js";
import { collectPolicies } from "../../core/directive/compile/read-policies.js";
import { entityKeysOf } from "../../core/directive/compile/reference.js";
import { Shapes } from "../../core/directive/compile/shape.js";
import { type ApplyCachedOptions, applyCached } from "../../core/directive/compile/wrap-fields.js";
import { resolveIdFields } from "../../core/directive/entities/id-fields.js";
import { adviceOnTags, canMatch } from "../../core/directive/invalidation/tag-advice.js";
import { isAuthName } from "../../core/directive/permissions/auth-names.js";
import { parseTagTemplate, type TagTemplate } from "../../core/keys/tag-template.js";
import { partsOf } from "../../core/parts.js";
import { MEANINGS, type PolicySettings } from "../../core/policy/policy.js";
import { fieldsWithoutEntries } from "../../core/responses/response-key.js";
import type { SchemaRules } from "../../core/schema-rules.js";
import type { CacheOptions } from "../../options.js";
import { type CheckedOperation, explainOperations } from "./operations.js";
import type { DirectiveUse, OfflineSchema, SchemaFile } from "./schema-document.js";
import { addResolvers, type CachedTarget, cachedTargets, locationOf } from "./targets.js";

/** Checks a schema without its resolvers. */
export const lint = (offline: OfflineSchema, options: LintOptions): LintResult => new Linter(offline, options).run();

/** The rules of `check`, with what each of them finds. */
export const RULES = {
  policy: "What applyCached refuses: invalid settings, keys and tags, a missing default key, a missing scope.",
  directive: "An unknown argument, a directive in a place where it has no effect, or the same directive twice.",
  type: "A policy of a type that no field returns.",
  resolver: "A policy of a field without a resolver, if a module exports the schema with its resolvers.",
  window: "A window that cannot work, such as staleWhileRevalidate with maxAge: 0.",
  seconds: "A duration that was probably written in milliseconds.",
  key: "An argument of the field that its `key` leaves out.",
  list: "A list without tags, in a schema whose mutations invalidate tags.",
  tag: "A tag that no cached field produces, or that no mutation invalidates, in a schema with `@invalidates`.",
} as const;

export type Rule = keyof typeof RULES;

export interface Finding {
  readonly rule: Rule;
  readonly coordinate: string;
  readonly message: string;
  readonly location: Location | undefined;
}

export interface LintResult {
  readonly findings: readonly Finding[];
  /** The number of fields and entity types with a valid policy. */
  readonly cachedCount: number;
  readonly notes: readonly string[];
  /** Which fields of the given operations are answered with subtrees. Undefined: no operations were given. */
  readonly operations: readonly CheckedOperation[] | undefined;
}

/** What a schema alone does not say about its server. */
export interface LintOptions {
  readonly names: Required<DirectiveNames>;
  /** The options of `createCache`. Undefined: unknown, so that profiles and `identify` are taken for granted. */
  readonly cache: CacheOptions | undefined;
  readonly hasIdentify: boolean;
  /** Directives that restrict who may see a field, besides those of the options. */
  readonly authDirectives: readonly string[];
  readonly apply: ApplyCachedOptions;
  readonly operations: readonly SchemaFile[] | undefined;
}

class Linter {
  readonly #offline: OfflineSchema;
  readonly #options: LintOptions;
  readonly #findings: Finding[] = [];
  readonly #notes: string[] = [];
  readonly #policies: ReadonlyMap<string, PolicySettings>;

  constructor(offline: OfflineSchema, options: LintOptions) {
    this.#offline = offline;
    this.#options = options;
    this.#policies = resolvePolicies(options.apply.policies);
  }

  run(): LintResult {
    const { names } = this.#options;
    this.#checkUses();
    const targets = cachedTargets(this.#offline, names.directive, this.#policies);
    if (!this.#offline.hasResolvers) addResolvers(this.#offline.schema, targets);
    const { cachedCount, rules } = this.#checkPolicies(targets);
    for (const target of targets) {
      this.#checkWindows(target);
      this.#checkKey(target);
    }
    const invalidated = this.#invalidatedTags(rules);
    if (!this.#hasEntityTags && invalidated.length > 0) this.#checkTags(targets, invalidated);
    if (names.directive !== "cached" && targets.length === 0)
      this.#notes.push(`No field or type has the directive @${names.directive}.`);
    const order = ({ location, coordinate }: Finding): string =>
      `${location?.source.name ?? ""}:${String(location?.start ?? 0).padStart(9, "0")}:${coordinate}`;
    const sorted = this.#findings.sort((one, other) => (order(one) < order(other) ? -1 : 1));
    return { findings: sorted, cachedCount, notes: this.#notes, operations: this.#explainOperations(targets) };
  }

  /** Lists and tags need no directives then. */
  get #hasEntityTags(): boolean {
    return Boolean(this.#options.apply.entityTags);
  }

  /** The schema gets its cache as in a server. That refuses mistakes, which are findings. */
  #explainOperations(targets: readonly CachedTarget[]): LintResult["operations"] {
    const { operations, names, apply } = this.#options;
    if (operations === undefined) return undefined;
    const { schema } = this.#offline;
    const directives = schema.getDirectives().map(({ name }) => name);
    const cache = this.#createCache(targets, directives.filter(isAuthName));
    try {
      const applied = applyCached(schema, cache, { ...apply, ...names });
      const checked = explainOperations(operations, applied, partsOf(cache, "check").subtrees);
      if (checked.every(({ fields }) => fields.length === 0))
        this.#notes.push("No operation has a field with `subtree: true`.");
      return checked;
    } catch (error) {
      if (!(error instanceof CachedError)) throw error;
      this.#notes.push(`The operations are not checked, since applyCached refuses the schema: ${error.message}`);
      return undefined;
    } finally {
      void cache.close();
    }
  }

  /** `authNames`: directives that restrict who may see a field by their names, unless the options name them. */
  #createCache(targets: readonly CachedTarget[], authNames: readonly string[] = []): Cache<object> {
    const { cache: given, hasIdentify, authDirectives } = this.#options;
    const replaced = given?.privacy?.authDirectives;
    return createCache({
      profiles: given === undefined ? assumedProfiles(targets) : given.profiles,
      identify: !hasIdentify ? undefined : given === undefined ? () => undefined : given.identify,
      defaults: given?.defaults,
      invalidation: { normalizeTag: given?.invalidation?.normalizeTag },
      privacy: { ...given?.privacy, authDirectives: [...(replaced ?? authNames), ...authDirectives] },
      logger: { info: () => undefined, warn: () => undefined },
    });
  }

  /** What GraphQL's validation says about directives, for our own two. */
  #checkUses(): void {
    const seen = new Set<string>();
    for (const { node, parentKind, coordinate } of this.#offline.uses) {
      const name = node.name.value;
      const report = (message: string, location = node.loc): void =>
        this.#find("directive", coordinate, `@${name}: ${message}`, location);
      const definition = this.#offline.schema.getDirective(name);
      const known = definition?.args.map((arg) => arg.name) ?? [];
      for (const { name: argument, loc } of node.arguments ?? [])
        if (!known.includes(argument.value))
          report(
            `unknown argument \`${argument.value}\`; expected one of ${list(known)}${didYouMean(argument.value, { known, meanings: MEANINGS })}`,
            loc,
          );
      const place = KIND_LOCATIONS[parentKind] ?? parentKind;
      if (definition?.locations.some((one) => one === place) !== true)
        report(
          `has no effect here; put it on a field${name === this.#options.names.directive ? " or type" : " of the mutation type"}`,
        );
      const use = `${name} ${coordinate}`;
      if (definition?.isRepeatable === false && seen.has(use))
        report("expected the directive once, got it again, without effect; merge the two");
      seen.add(use);
    }
  }

  /** Runs the checks of `applyCached`. Returns the number of valid policies, and the valid rules. */
  #checkPolicies(targets: readonly CachedTarget[]): { readonly cachedCount: number; readonly rules: SchemaRules } {
    const { schema } = this.#offline;
    const { names, cache: given, hasIdentify } = this.#options;
    const profiles = given === undefined ? assumedProfiles(targets) : given.profiles;
    const isPrivate = targets.some(({ settings }) => settings.scope === "PRIVATE");
    if (given === undefined && hasIdentify && isPrivate)
      this.#notes.push("PRIVATE fields need `identify`, which is taken for granted; pass --config or --no-identify.");
    if (given === undefined && Object.keys(profiles ?? {}).length > 0)
      this.#notes.push(`The profiles ${list(Object.keys(profiles ?? {}))} are taken for granted; pass --config.`);
    const replaced = given?.privacy?.authDirectives;
    const cache = this.#createCache(targets);
    const made = partsOf(cache, "check");
    const isNamedAuth = (name: string): boolean => replaced === undefined && isAuthName(name);
    const parts = { ...made, isAuthDirective: (name: string) => made.isAuthDirective(name) || isNamedAuth(name) };
    const idFields = resolveIdFields(this.#options.apply.idFields, schema);
    const { rules, findings } = collectPolicies({
      schema,
      parts,
      names,
      shapes: new Shapes(schema),
      idFields,
      policies: this.#policies,
    });
    const { mistakes, unusedTypes, doubts, unresolved } = findings;
    const kept = fieldsWithoutEntries(schema, rules);
    if (kept.length > 0 && !this.#hasEntityTags)
      this.#notes.push(
        `With \`responses: true\`, nothing but what their resolvers read through loaders and cached fields invalidates responses with ${list(kept)}: they have @cacheControl, and no @cached.`,
      );
    for (const { coordinate, from, to } of adviceOnTags(schema, rules, parts, idFields))
      this.#notes.push(
        `${coordinate}: write \`${to}\` in place of \`${from}\`: the client can spell an id in several ways, and the result has it as it is stored.`,
      );
    // The rule `key` has a check of its own, for all arguments.
    for (const { about, coordinate, doubt } of doubts)
      if (about === "seconds") this.#find("seconds", coordinate, doubt);
    if (this.#offline.hasResolvers)
      for (const coordinate of unresolved)
        this.#find(
          "resolver",
          coordinate,
          "a field without a resolver, which reads a property of its parent, so that nothing is saved; give it a resolver, or cache the field that loads the parent; it is right if the property is a method",
        );
    const messages = new Set<string>();
    for (const { error, source, coordinate, text, isUnknownName } of mistakes) {
      if (messages.has(error.message)) continue;
      messages.add(error.message);
      // Those of directives are found where the directive is, with their place.
      const isFound = this.#offline.uses.some(
        ({ node, coordinate: used }) => used === coordinate && source === `@${node.name.value}`,
      );
      if (!isUnknownName || !isFound) this.#find("policy", coordinate, `${source}: ${text}`);
    }
    for (const { source, coordinate } of unusedTypes)
      this.#find(
        "type",
        coordinate,
        `${source}: no field returns the type, so it has no effect; put it on the fields that load values, or remove it`,
      );
    void cache.close();
    return { cachedCount: rules.fields.size, rules };
  }

  #checkWindows({ coordinate, settings, field }: CachedTarget): void {
    const { maxAge, staleWhileRevalidate = 0, staleIfError = 0, refresh, neverExpires } = settings;
    const report = (message: string): void => this.#find("window", coordinate, message);
    const windows = ["staleWhileRevalidate", "staleIfError", "negativeMaxAge", "earlyRefresh", "neverExpires"] as const;
    if (maxAge === 0) {
      const set = windows.filter((name) => Boolean(settings[name]));
      if (set.length > 0)
        report(
          `${list(set)}: without effect, since \`maxAge: 0\` turns caching off; set maxAge to at least 1, or remove ${set.length === 1 ? "it" : "them"}`,
        );
      return;
    }
    if (neverExpires === true) {
      const set = (["staleWhileRevalidate", "staleIfError"] as const).filter((name) => Boolean(settings[name]));
      if (set.length > 0)
        report(
          `${list(set)}: without effect with \`neverExpires: true\`, which serves the old value without a limit; remove one of them`,
        );
    } else if (staleIfError > 0 && staleIfError <= staleWhileRevalidate && refresh !== "FOREGROUND") {
      report(
        `\`staleIfError\`: expected more than \`staleWhileRevalidate\` (${staleWhileRevalidate}), got ${staleIfError}: the stale value is served for that long anyway; raise or remove it`,
      );
    }
    if (
      refresh !== undefined &&
      settings.profile === undefined &&
      staleWhileRevalidate === 0 &&
      neverExpires !== true &&
      this.#options.cache?.defaults?.staleWhileRevalidate === undefined
    )
      report("`refresh`: without effect, since no stale value is served; set staleWhileRevalidate, or remove it");
    if (field !== undefined && settings.negativeMaxAge !== undefined && !canBeNegative(field.type))
      report(
        `\`negativeMaxAge\`: without effect, since a value of type \`${String(field.type)}\` is never null or an empty list; remove it`,
      );
  }

  #checkKey({ coordinate, settings: { key }, field }: CachedTarget): void {
    if (key === undefined || field === undefined || !Array.isArray(key) || key.includes("$args")) return;
    const named = key.flatMap((text) => /^\$args\.(\w+)/.exec(String(text))?.[1] ?? []);
    const names = field.args.map(({ name }) => name);
    const left = names.filter((name) => !named.includes(name));
    // A name that does not exist is probably a misspelt one, and reported with the policies.
    if (left.length > 0 && named.every((name) => names.includes(name)))
      this.#find(
        "key",
        coordinate,
        `\`key\`: leaves out ${left.length === 1 ? "the argument" : "the arguments"} ${list(left.map((name) => `$args.${name}`))}, so calls that differ only there share one value; add ${left.length === 1 ? "it" : "them"}, or pass --ignore key:${coordinate}`,
      );
  }

  /** The tags of `@invalidates`, each with its coordinate. Those of a schema that was built in code are in its rules. */
  #invalidatedTags({ invalidations }: SchemaRules): Tagged[] {
    if (this.#offline.hasResolvers)
      return [...invalidations].flatMap(([coordinate, { tags }]) =>
        tags.map((tag) => ({ coordinate, tag, location: locationOf(this.#offline, coordinate) })),
      );
    return this.#offline.uses
      .filter(({ node }) => node.name.value === this.#options.names.invalidates)
      .flatMap((use) => tagsOf(use).map((tag) => ({ coordinate: use.coordinate, tag, location: use.node.loc })));
  }

  #checkTags(targets: readonly CachedTarget[], invalidated: readonly Tagged[]): void {
    const { schema } = this.#offline;
    const { profiles = {} } = this.#options.cache ?? {};
    const produced: Tagged[] = targets.flatMap(({ coordinate, settings, location }) => {
      const texts = settings.tags ?? profiles[settings.profile ?? ""]?.tags ?? [];
      const declared = texts.flatMap((text) => parseTagTemplate(String(text)) ?? []);
      return declared.map((tag) => ({ coordinate, tag, location }));
    });
    const ofEntities = targets.flatMap(({ coordinate, field }) => {
      const type = schema.getType(coordinate);
      return field === undefined && isObjectType(type) && entityKeysOf(schema, type).length > 0
        ? (parseTagTemplate(`${coordinate}:{$result.id}`) ?? [])
        : [];
    });
    const known = list([...new Set(produced.map(({ tag }) => tag.text))]);
    for (const { coordinate, tag, location } of invalidated)
      if (![...produced.map((one) => one.tag), ...ofEntities].some((other) => canMatch(tag, other)))
        this.#find(
          "tag",
          coordinate,
          `no cached field has a tag like \`${tag.text}\`; known tags: ${known}; correct it, or pass --ignore tag:${coordinate} if a loader has the tag`,
          location,
        );
    for (const { coordinate, tag, location } of produced)
      if (!invalidated.some((other) => canMatch(other.tag, tag)))
        this.#find(
          "tag",
          coordinate,
          `no mutation invalidates a tag like \`${tag.text}\`; correct it, add @${this.#options.names.invalidates} to the mutation, or pass --ignore tag:${coordinate} if other code calls cache.invalidateTags`,
          location,
        );
    for (const { coordinate, settings, field } of targets) {
      // One with subtrees has the tags of everything in it, those of loaders too. What a profile says can be unknown.
      const { maxAge, subtree, profile } = settings;
      if (field === undefined || maxAge === 0 || subtree === true || profile !== undefined) continue;
      const { name } = getNamedType(field.type);
      const hasTags = produced.some((one) => [coordinate, name].includes(one.coordinate));
      if (isListOfObjects(field.type) && !hasTags)
        this.#find(
          "list",
          coordinate,
          `a list without tags, which no mutation can invalidate; add tags such as ${name}:{$result[].id}, and one for the list itself if a mutation adds to it`,
        );
    }
  }

  #find(rule: Rule, coordinate: string, message: string, location = locationOf(this.#offline, coordinate)): void {
    this.#findings.push({ rule, coordinate, message, location });
  }
}

interface Tagged {
  readonly coordinate: string;
  readonly tag: TagTemplate;
  readonly location: Location | undefined;
}

/** Where the definition of a directive says that it can be, by the kind of the node that has it. */
const KIND_LOCATIONS: Readonly<Record<string, string>> = {
  [Kind.FIELD_DEFINITION]: "FIELD_DEFINITION",
  [Kind.OBJECT_TYPE_DEFINITION]: "OBJECT",
  [Kind.OBJECT_TYPE_EXTENSION]: "OBJECT",
  [Kind.INTERFACE_TYPE_DEFINITION]: "INTERFACE",
  [Kind.INTERFACE_TYPE_EXTENSION]: "INTERFACE",
  [Kind.UNION_TYPE_DEFINITION]: "UNION",
  [Kind.UNION_TYPE_EXTENSION]: "UNION",
};

/** The tags of one use of `@invalidates`. Others are reported with the policies. */
function tagsOf({ node }: DirectiveUse): TagTemplate[] {
  const value = node.arguments?.find(({ name }) => name.value === "tags")?.value;
  const values = value?.kind === Kind.LIST ? value.values : value === undefined ? [] : [value];
  return values.flatMap((one) => (one.kind === Kind.STRING ? (parseTagTemplate(one.value) ?? []) : []));
}

/** Profiles with the names that a schema uses: what they say is not known, so nothing in them is a mistake. */
function assumedProfiles(targets: readonly CachedTarget[]): Record<string, PolicySettings> {
  const names = targets.map(({ settings }) => settings.profile).filter((name) => typeof name === "string");
  return Object.fromEntries(names.map((name) => [name, { maxAge: 2_147_483_647 }]));
}

const canBeNegative = (type: GraphQLOutputType): boolean => !isNonNullType(type) || isListType(type.ofType);

const isListOfObjects = (type: GraphQLOutputType): boolean =>
  isListType(getNullableType(type)) && isCompositeType(getNamedType(type) as GraphQLNamedType);

const list = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(", ") || "none";
