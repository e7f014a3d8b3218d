import { type GraphQLObjectType, type GraphQLSchema, getNullableType, isLeafType, isNonNullType } from "graphql";
import { describeSetting } from "../../base/errors.js";
import { idText } from "../../keys/canonical.js";
import { EACH, type Path, parsePath, readPath } from "../../keys/path.js";
import { batchExistence, type ExistenceGuard } from "../../loader/existence.js";
import type { CacheParts } from "../../parts.js";
import type { SchemaRules } from "../../schema-rules.js";
import { recordOption, refuseMistakes } from "../compile/apply-options.js";
import type { FieldRoots } from "../compile/field-rule.js";
import { hasOwnResolver } from "../compile/own-resolver.js";
import { fieldAt } from "../compile/reference.js";
import { mistakeInPath, type PathPlace } from "../compile/template-reader.js";
import { isIdType, typeAt } from "../compile/value-types.js";

/** How a cached field knows that what it is asked for cannot exist. */
export interface FieldExistence {
  /**
   * Where the id is: in the arguments, such as `$args.id`, or in the parent object or the
   * representation, such as `$source.id`. An `ID` is passed as a string, whatever its spelling.
   */
  readonly id: string;
  /** Such as a `bloomGuard`. Called once per tick with the ids that have no entry. */
  readonly guard: ExistenceGuard<never>;
}

export type ExistenceCheck = (roots: FieldRoots) => (() => Promise<boolean>) | undefined;

/** Returns the checks of the option `exists`, by coordinate. Throws all mistakes in one error. */
export function existenceChecks(
  given: unknown,
  rules: SchemaRules,
  schema: GraphQLSchema,
  parts: CacheParts,
): ReadonlyMap<string, ExistenceCheck> {
  const checks = new Map<string, ExistenceCheck>();
  const mistakes: string[] = [];
  const entries = recordOption(given, "exists", "coordinates", '{ "Query.movie": { id: "$args.id", guard } }');
  for (const [coordinate, existence] of entries) {
    const place = `exists["${coordinate}"]`;
    const found = rules.fields.has(coordinate) ? fieldAt(schema, coordinate) : undefined;
    if (found === undefined) {
      const known = [...rules.fields.keys()].join(", ") || "none";
      mistakes.push(`\`${place}\`: expected the coordinate of a cached field of the schema; known fields: ${known}`);
      continue;
    }
    const { id, guard, ...others } = (existence ?? {}) as Partial<Record<string, unknown>>;
    for (const name of Object.keys(others))
      mistakes.push(`\`${place}.${name}\`: unknown property; expected \`id\` and \`guard\``);
    if (typeof (guard as { has?: unknown } | null | undefined)?.has !== "function")
      mistakes.push(`\`${place}.guard\`: expected an object with the method has, got ${describeSetting(guard)}`);
    const { field } = found;
    if (isNonNullType(field.type))
      mistakes.push(`\`${place}\`: expected a field that can be null, got one of the type ${field.type}`);
    const path = typeof id === "string" ? parsePath(id) : undefined;
    const parent = found.type as GraphQLObjectType;
    const mistake = pathMistake(path, id, { schema, parent, field, isRoot: parent === schema.getQueryType() });
    if (mistake !== undefined) mistakes.push(`\`${place}.id\`: ${mistake}`);
    else if (mistakes.length === 0) {
      const isId = isIdType(typeAt(path as Path, parent, field));
      const check = batchExistence(guard as ExistenceGuard<unknown>, `applyCached: \`${place}.guard\``, parts);
      checks.set(coordinate, checkOf(path as Path, isId, check));
    }
  }
  refuseMistakes(...mistakes);
  return checks;
}

function checkOf(path: Path, isId: boolean, check: (id: unknown) => Promise<boolean>): ExistenceCheck {
  return ({ args, source }) => {
    const [value] = readPath(path, { args, source });
    const id = isId ? (idText(value) ?? value) : value;
    return id === undefined ? undefined : () => check(id);
  };
}

function pathMistake(path: Path | undefined, given: unknown, at: PathPlace): string | undefined {
  const isPath =
    (path?.root === "args" || path?.root === "source") && path.steps.length > 0 && !path.steps.includes(EACH);
  if (!isPath) return `expected the path of an id, such as $args.id or $source.id, got ${describeSetting(given)}`;
  return mistakeInParent(path, at.parent) ?? mistakeInPath(path, "id", at);
}

/** Objects of resolvers can have other properties than the fields of their type. */
function mistakeInParent({ text, root, steps }: Path, parent: GraphQLObjectType): string | undefined {
  const [name = "", ...below] = root === "source" ? steps : [];
  const field = parent.getFields()[name];
  const isWhole = field !== undefined && below.length === 0 && !hasOwnResolver(field);
  return isWhole && !isLeafType(getNullableType(field.type))
    ? `\`${text}\`: expected a single value, got one of the type ${field.type}`
    : undefined;
}
