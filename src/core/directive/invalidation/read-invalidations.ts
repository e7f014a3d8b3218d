import { type GraphQLInterfaceType, type GraphQLObjectType, isInterfaceType } from "graphql";
import { describeSetting, messageOf } from "../../base/errors.js";
import { unknownName } from "../../base/option-names.js";
import type { InvalidationRule } from "../../schema-rules.js";
import { directivesAt, expectedArgument } from "../compile/directives.js";
import type { AnyField } from "../compile/field-rule.js";
import type { Findings, Place, PolicyInputs } from "../compile/findings.js";
import { hasOwnResolver, hasPlan } from "../compile/own-resolver.js";
import { emptyTagReporter, type TemplateReader } from "../compile/template-reader.js";
import { type ReachableTypes, reachableTypesOf } from "../compile/type-graph.js";

export class InvalidationReader {
  readonly #inputs: PolicyInputs;
  readonly #findings: Findings;
  readonly #templates: TemplateReader;
  #reachable: ReachableTypes | undefined;

  constructor(inputs: PolicyInputs, findings: Findings, templates: TemplateReader) {
    this.#inputs = inputs;
    this.#findings = findings;
    this.#templates = templates;
  }

  /** Adds the rule of a field to `rules`. Returns whether it declares one. `findsEntities`: whether the entities in its value count. */
  read(
    type: GraphQLObjectType | GraphQLInterfaceType,
    field: AnyField,
    findsEntities: boolean,
    rules: Map<string, InvalidationRule>,
  ): boolean {
    const { schema, parts, entities } = this.#inputs;
    const coordinate = `${type.name}.${field.name}`;
    const place = { source: "@invalidates", coordinate };
    const isRoot = type === schema.getMutationType();
    const declared = this.#declaredAt(type, field, place);
    const reportEmptyTag = emptyTagReporter(place, declared ?? [], parts.channel);
    if (declared !== undefined && declared.length > 0) {
      const tags = this.#templates.tags({ parent: type as GraphQLObjectType, field, isRoot, place }, declared);
      rules.set(coordinate, { tags, reportEmptyTag, entities: undefined });
    }
    const found = findsEntities ? entities?.finderOf(field.type, coordinate) : undefined;
    // On nested types, fields without a resolver return a part of what their parent has returned.
    if (found !== undefined && (isRoot || (hasOwnResolver(field) && this.isOfMutationsOnly(type))))
      rules.set(coordinate, { tags: [], reportEmptyTag, ...rules.get(coordinate), entities: found });
    if (hasPlan(field) && rules.has(coordinate))
      this.#findings.refuse(
        declared === undefined ? { source: "entityTags", coordinate } : place,
        "Grafast answers the field by its plan (`extensions.grafast`), which a resolver would replace; call cache.invalidateTags after the change",
      );
    return declared !== undefined;
  }

  /** Returns the tags that a field declares: none of those that are refused. Undefined if it declares nothing. */
  #declaredAt(
    type: GraphQLObjectType | GraphQLInterfaceType,
    field: AnyField,
    place: Place,
  ): readonly string[] | undefined {
    const { schema } = this.#inputs;
    const refuse = (text: string): void => this.#findings.refuse(place, text);
    let declared: readonly unknown[];
    try {
      const inExtensions = (field.extensions as { invalidates?: unknown } | undefined)?.invalidates ?? [];
      declared = [...directivesAt(schema, field, "invalidates"), ...[inExtensions].flat()];
    } catch (error) {
      refuse(`invalid argument: ${messageOf(error)}${expectedArgument(schema, field, "invalidates")}`);
      return [];
    }
    if (declared.length === 0) return undefined;
    const mistake = this.#notOfMutations(type);
    if (mistake !== undefined) {
      refuse(mistake);
      return [];
    }
    for (const one of declared)
      for (const name of Object.keys(typeof one === "object" && one !== null ? one : {}))
        if (name !== "tags") refuse(unknownName(name, { kind: "argument", known: ["tags"] }));
    return declared.flatMap((one) => {
      const given = (one as { tags?: unknown } | null)?.tags;
      if (Array.isArray(given) && given.every((tag) => typeof tag === "string")) {
        if (given.length === 0) refuse("`tags`: expected at least one tag, got none; name one, or remove it");
        return given as string[];
      }
      refuse(
        typeof one === "object" && one !== null
          ? `\`tags\`: expected an array of strings, got ${describeSetting(given)}`
          : `expected an object such as { tags: ["Movie:{$result.id}"] }, got ${describeSetting(one)}`,
      );
      return [];
    });
  }

  /** Returns why a field of `type` cannot invalidate. Undefined if it can. */
  #notOfMutations(type: GraphQLObjectType | GraphQLInterfaceType): string | undefined {
    if (isInterfaceType(type))
      return `interface fields have no resolver; put \`@invalidates\` on the fields of the object types`;
    if (this.isOfMutationsOnly(type)) return undefined;
    const why = this.#reachableTypes.others.has(type.name)
      ? `queries and subscriptions reach \`${type.name}\` as well`
      : `\`${type.name}\` cannot be reached from the mutation type`;
    return `expected a field that only mutations can ask for, but ${why}; move it to a field of the mutation type, or call cache.invalidateTags in the resolver`;
  }

  /** Whether mutations can reach a type, and no other operation: on another type, a read would invalidate. */
  isOfMutationsOnly({ name }: { readonly name: string }): boolean {
    const { mutations, others } = this.#reachableTypes;
    return mutations.has(name) && !others.has(name);
  }

  get #reachableTypes(): ReachableTypes {
    this.#reachable ??= reachableTypesOf(this.#inputs.schema);
    return this.#reachable;
  }
}
