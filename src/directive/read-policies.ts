import {
  defaultFieldResolver,
  type GraphQLInterfaceType,
  type GraphQLObjectType,
  type GraphQLSchema,
  type GraphQLUnionType,
  getNamedType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
  isUnionType,
} from "graphql";
import { CachedError, messageOf } from "../errors.js";
import { type Path, parsePath } from "../keys/path.js";
import { parseTagTemplate, type TagTemplate } from "../keys/tag-template.js";
import type { CacheParts } from "../parts.js";
import { compilePolicy, type PolicySettings, settingsMistakes } from "../policy/policy.js";
import { type DirectiveNames, directivesAt } from "./directive-names.js";
import type { AnyField, FieldRule } from "./field-rule.js";
import { carriedPrivate, guardsIn } from "./guards.js";

/** What a schema says about caching, by coordinate. */
export interface SchemaRules {
  readonly fields: ReadonlyMap<string, FieldRule>;
  /** The tags that mutation fields invalidate. */
  readonly invalidations: ReadonlyMap<string, readonly TagTemplate[]>;
}

/**
 * Reads every `@cached`, `@invalidates` and `extensions.cached` of a schema.
 * Errors: `CACHED_SCHEMA_INVALID`, one for all mistakes of the schema, each with its coordinate; a lone mistake keeps its own code.
 */
export function readPolicies(schema: GraphQLSchema, parts: CacheParts, names: Required<DirectiveNames>): SchemaRules {
  const reader = new PolicyReader(schema, parts, names);
  const rules = reader.read();
  if (reader.mistakes.length === 1) throw reader.mistakes[0] as CachedError;
  if (reader.mistakes.length > 1) {
    const list = reader.mistakes.map((mistake) => `- ${mistake.message} [${mistake.code}]`).join("\n");
    throw new CachedError(
      "CACHED_SCHEMA_INVALID",
      `the schema has ${reader.mistakes.length} mistakes in its use of the cache:\n${list}`,
      {
        cause: reader.mistakes,
      },
    );
  }
  return rules;
}

const hasResolver = ({ resolve }: AnyField): boolean => resolve !== undefined && resolve !== defaultFieldResolver;

class PolicyReader {
  readonly mistakes: CachedError[] = [];
  readonly #schema: GraphQLSchema;
  readonly #parts: CacheParts;
  readonly #names: Required<DirectiveNames>;
  readonly #guardOf: ReturnType<typeof guardsIn>;

  constructor(schema: GraphQLSchema, parts: CacheParts, names: Required<DirectiveNames>) {
    this.#schema = schema;
    this.#parts = parts;
    this.#names = names;
    this.#guardOf = guardsIn(schema, parts.authDirectives);
  }

  read(): SchemaRules {
    const fields = new Map<string, FieldRule>();
    const invalidations = new Map<string, readonly TagTemplate[]>();
    const uncacheable = [this.#schema.getMutationType(), this.#schema.getSubscriptionType()];
    const types = Object.values(this.#schema.getTypeMap()).filter((type) => !type.name.startsWith("__"));
    const ofTypes = new Map<string, PolicySettings | undefined>();
    for (const type of types)
      if (isObjectType(type) || isInterfaceType(type) || isUnionType(type))
        ofTypes.set(type.name, this.#settings(type, type.name));
    for (const type of types) {
      if (isInterfaceType(type)) this.#checkInterface(type);
      if (!isObjectType(type)) continue;
      for (const field of Object.values(type.getFields())) {
        const coordinate = `${type.name}.${field.name}`;
        const own = this.#settings(field, coordinate);
        if (uncacheable.includes(type)) {
          if (own !== undefined)
            this.#mistake(
              coordinate,
              `fields of the mutation and subscription types are never cached; remove \`@${this.#names.directive}\``,
            );
          if (type === uncacheable[0]) this.#readInvalidations(field, coordinate, invalidations);
          continue;
        }
        // What only the returned type says holds where there is something to save: a field without a resolver reads its parent object.
        const ofType = own !== undefined || hasResolver(field) ? ofTypes.get(getNamedType(field.type).name) : undefined;
        if (own === undefined && ofType === undefined) continue;
        const rule = this.#rule(type, field, coordinate, own, ofType);
        if (rule !== undefined) fields.set(coordinate, rule);
      }
    }
    this.#checkCarried(fields);
    return { fields, invalidations };
  }

  /** A private field without a resolver reads its parent object: where that is shared, so is the private value in it. */
  #checkCarried(fields: ReadonlyMap<string, FieldRule>): void {
    const isPrivate = (coordinate: string): boolean => fields.get(coordinate)?.policy.scope === "PRIVATE";
    const carriedBy = carriedPrivate(this.#schema, isPrivate);
    for (const [coordinate, { policy }] of fields) {
      const [typeName = "", fieldName = ""] = coordinate.split(".");
      const field = (this.#schema.getType(typeName) as GraphQLObjectType).getFields()[fieldName];
      if (policy.scope === "PRIVATE" || field === undefined) continue;
      for (const carried of carriedBy(getNamedType(field.type)))
        this.#mistake(
          carried,
          `it is PRIVATE and has no resolver, so its value comes with the one of \`${coordinate}\`, which is PUBLIC and given to everybody; give it a resolver, or make \`${coordinate}\` PRIVATE`,
        );
    }
  }

  /** What is said at one place, in the directive or in `extensions.cached`; the directive wins. */
  #settings(
    at: AnyField | GraphQLObjectType | GraphQLInterfaceType | GraphQLUnionType,
    coordinate: string,
  ): PolicySettings | undefined {
    let said: readonly Record<string, unknown>[];
    try {
      const [directive] = directivesAt(this.#schema, at, this.#names.directive);
      said = [directive, (at.extensions as { cached?: Record<string, unknown> } | undefined)?.cached].filter(
        (one) => one !== undefined,
      );
    } catch (error) {
      this.#mistake(
        coordinate,
        `\`@${this.#names.directive}\` has an argument that cannot be read: ${messageOf(error)}`,
      );
      return undefined;
    }
    const mistakes = said.flatMap((settings) => settingsMistakes(settings));
    for (const mistake of mistakes) this.#mistake(coordinate, mistake);
    if (said.length === 0 || mistakes.length > 0) return undefined;
    return Object.assign({}, ...[...said].reverse()) as PolicySettings;
  }

  #rule(
    parent: GraphQLObjectType,
    field: AnyField,
    coordinate: string,
    own: PolicySettings | undefined,
    ofType: PolicySettings | undefined,
  ): FieldRule | undefined {
    const before = this.mistakes.length;
    const { profiles, defaults, identify } = this.#parts;
    const { settings, policy, mistakes } = compilePolicy({ said: [own, ofType], profiles, defaults });
    for (const mistake of mistakes) this.#mistake(coordinate, mistake);
    if (settings.maxAge === 0 && mistakes.length === 0) return undefined;
    if (policy.scope === "PRIVATE" && identify === undefined)
      this.#mistake(
        coordinate,
        "scope PRIVATE needs to know who is asking; give createCache({ identify: (context) => … })",
        "CACHED_SCOPE_MISSING",
      );
    // Only the field itself can say that it is shared: what a type, a profile or the defaults say was not said with this guard in view.
    const guard = policy.scope === "PRIVATE" || own?.scope === "PUBLIC" ? undefined : this.#guardOf(parent, field);
    if (guard !== undefined)
      this.#mistake(
        coordinate,
        `it is under \`@${guard}\`, and the field does not say who may share its value; say scope: PRIVATE there, or scope: PUBLIC if all who may see it see the same`,
        "CACHED_SCOPE_MISSING",
      );
    const isRoot = parent === this.#schema.getQueryType();
    const keyPaths = this.#keyPaths(parent, field, coordinate, isRoot, settings.key);
    const tags = this.#tags(field, coordinate, isRoot, settings.tags ?? []);
    return this.mistakes.length > before ? undefined : { coordinate, policy, isRoot, keyPaths, tags, args: field.args };
  }

  #keyPaths(
    parent: GraphQLObjectType,
    field: AnyField,
    coordinate: string,
    isRoot: boolean,
    key: readonly string[] | undefined,
  ): Path[] | undefined {
    if (key === undefined) {
      if (!isRoot && parent.getFields().id === undefined)
        this.#mistake(
          coordinate,
          `the default key needs \`${parent.name}.id\`, which does not exist; say what identifies the parent, such as key: ["$args", "$source.code"]`,
        );
      return undefined;
    }
    return key.flatMap((text) => {
      const path = parsePath(text);
      if (path === undefined || path.root === "result" || path.steps.includes("[]")) {
        this.#mistake(
          coordinate,
          `\`key\` has ${JSON.stringify(text)}, which is no path; write $args.id, $source.id, $context.locale or $selection`,
        );
        return [];
      }
      this.#checkPath(path, field, coordinate, isRoot);
      return [path];
    });
  }

  #tags(field: AnyField, coordinate: string, isRoot: boolean, tags: readonly string[]): TagTemplate[] {
    return tags.flatMap((text) => {
      const template = parseTagTemplate(text);
      if (template === undefined) {
        this.#mistake(
          coordinate,
          `\`tags\` has ${JSON.stringify(text)}, which is no tag; write Movie:{$args.id} or Movie:{$result[].id}`,
        );
        return [];
      }
      for (const piece of template.pieces)
        if (typeof piece !== "string") this.#checkPath(piece, field, coordinate, isRoot);
      return [template];
    });
  }

  /** Arguments are known while the schema is built, so a path into them must lead somewhere; a root field's parent object is nobody's. */
  #checkPath(path: Path, field: AnyField, coordinate: string, isRoot: boolean): void {
    if (path.root === "source" && isRoot)
      this.#mistake(coordinate, `\`${path.text}\` leads nowhere: a field of the query type has no parent object`);
    if (path.root !== "args") return;
    let choices: readonly { readonly name: string; readonly type: unknown }[] = field.args;
    for (const step of path.steps) {
      if (step === "[]") continue;
      const next = choices.find(({ name }) => name === step);
      if (next === undefined) {
        const there = choices.map(({ name }) => `\`${name}\``).join(", ") || "nothing";
        this.#mistake(coordinate, `\`${path.text}\` leads nowhere: where \`${step}\` was expected there is ${there}`);
        return;
      }
      const type = getNamedType(next.type as Parameters<typeof getNamedType>[0]);
      // Inside a custom scalar anything may be; what is not there then is told of when it is read.
      if (type !== undefined && !isInputObjectType(type)) return;
      choices = isInputObjectType(type) ? Object.values(type.getFields()) : [];
    }
  }

  #checkInterface(type: GraphQLInterfaceType): void {
    for (const field of Object.values(type.getFields()))
      if (this.#settings(field as AnyField, `${type.name}.${field.name}`) !== undefined)
        this.#mistake(
          `${type.name}.${field.name}`,
          `a field of an interface has no resolver; put \`@${this.#names.directive}\` on the fields of the object types`,
        );
  }

  #readInvalidations(field: AnyField, coordinate: string, invalidations: Map<string, readonly TagTemplate[]>): void {
    const said = directivesAt(this.#schema, field, this.#names.invalidates);
    const tags = said.flatMap((one) => (one as { tags?: string[] }).tags ?? []);
    if (tags.length > 0) invalidations.set(coordinate, this.#tags(field, coordinate, true, tags));
  }

  #mistake(
    coordinate: string,
    what: string,
    code: "CACHED_POLICY_INVALID" | "CACHED_SCOPE_MISSING" = "CACHED_POLICY_INVALID",
  ): void {
    this.mistakes.push(new CachedError(code, `\`${coordinate}\`: ${what}`, { coordinate }));
  }
}
