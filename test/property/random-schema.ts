import type { Draw } from "./draw.js";

/** One field of a random schema. */
export interface RandomField {
  readonly name: string;
  /** The innermost type, without lists and non-null. */
  readonly typeName: string;
  /** The list wrappers of the type, outermost first. */
  readonly lists: readonly { readonly isNullable: boolean }[];
  readonly isNullable: boolean;
  readonly args: readonly string[];
  /** Whether the field has its own resolver. Without one, it reads a property of its parent. */
  readonly hasResolver: boolean;
}

export interface RandomSchema {
  readonly objects: Readonly<Record<string, readonly RandomField[]>>;
  /** The possible types of each abstract type. */
  readonly members: Readonly<Record<string, readonly string[]>>;
  readonly typeDefs: string;
  /** Seeds the data of the schema. */
  readonly salt: string;
}

/** All arguments by name, with type and default. */
export const ARGS: Readonly<Record<string, string>> = {
  n: "Int = 1",
  color: "Color",
  filter: "Filter",
  ids: "[ID!]",
  at: "Date",
  big: "Big",
  on: "Boolean! = true",
  x: "Float",
  colors: "[Color] = [RED, null]",
};

/** The fields of the input type `Filter`, with type and default. */
export const FILTER: Readonly<Record<string, string>> = {
  n: "Int = 3",
  color: "Color = BLUE",
  list: "[Int!]",
  inner: "Filter",
  at: "Date",
  big: "Big",
  text: 'String! = "x"',
};

const LEAVES = ["Int", "String", "Boolean", "Float", "ID", "Color", "Date", "Big"];
const ABSTRACT = ["Node", "Either"];

/**
 * Returns a random schema with random policies on fields and types. Each key contains everything
 * the value depends on.
 */
export function randomSchema(draw: Draw): RandomSchema {
  const names = Array.from({ length: 2 + draw.int(2) }, (_, index) => `T${index}`);
  const composites = [...names, ...ABSTRACT];
  const fields = (count: number, isRoot: boolean): RandomField[] =>
    Array.from({ length: count }, (_, index) => randomField(draw, `f${index}`, composites, isRoot));
  const objects: Record<string, RandomField[]> = { Query: fields(3 + draw.int(2), true) };
  for (const name of names) objects[name] = fields(2 + draw.int(3), false);
  const members = { Node: names, Either: names.slice(0, 2) };
  const types = names.map(
    (name) =>
      `type ${name} implements Node${typePolicy(draw)} { id: ID! name: String ${sdlOf(objects[name] ?? [], draw, false)} }`,
  );
  const typeDefs = [
    "scalar Date scalar Big enum Color { RED GREEN BLUE }",
    `input Filter { ${Object.entries(FILTER)
      .map(([name, type]) => `${name}: ${type}`)
      .join(" ")} }`,
    `interface Node${typePolicy(draw)} { id: ID! name: String }`,
    `union Either${typePolicy(draw)} = ${members.Either.join(" | ")}`,
    ...types,
    `type Query { ${sdlOf(objects.Query ?? [], draw, true)} }`,
  ].join("\n");
  return { objects, members, typeDefs, salt: String(draw.int(999)) };
}

function randomField(draw: Draw, name: string, composites: readonly string[], isRoot: boolean): RandomField {
  const hasResolver = isRoot || draw.chance(70);
  const isObject = hasResolver && draw.chance(isRoot ? 70 : 40);
  return {
    name,
    typeName: draw.pick(isObject ? composites : LEAVES),
    lists: Array.from({ length: draw.pick([0, 0, 1, 1, 2]) }, () => ({ isNullable: draw.chance(70) })),
    isNullable: draw.chance(70),
    args: hasResolver ? draw.some(Object.keys(ARGS)).slice(0, 3) : [],
    hasResolver,
  };
}

/** Returns the type of a field in SDL. */
export function typeOf({ typeName, lists, isNullable }: RandomField): string {
  return lists.reduceRight(
    (inner, list) => `[${inner}]${list.isNullable ? "" : "!"}`,
    `${typeName}${isNullable ? "" : "!"}`,
  );
}

const sdlOf = (fields: readonly RandomField[], draw: Draw, isRoot: boolean): string =>
  fields
    .map((field) => {
      const args = field.args.map((arg) => `${arg}: ${ARGS[arg]}`).join(", ");
      const policy = draw.chance(60) ? fieldPolicy(draw, field, isRoot) : "";
      return `${field.name}${args === "" ? "" : `(${args})`}: ${typeOf(field)}${policy}`;
    })
    .join(" ");

const typePolicy = (draw: Draw): string =>
  draw.chance(40) ? ` @cached(${[`maxAge: ${1 + draw.int(60)}`, ...timings(draw)].join(", ")})` : "";

function fieldPolicy(draw: Draw, field: RandomField, isRoot: boolean): string {
  const maxAge = draw.int(60);
  const settings = [`maxAge: ${maxAge}`, ...timings(draw)];
  if (draw.chance(30)) settings.push(`negativeMaxAge: ${draw.int(maxAge)}`);
  // A private field needs its own resolver. Otherwise its value would be part of its public parent.
  if (field.hasResolver && draw.chance(30)) settings.push("scope: PRIVATE");
  if (draw.chance(50)) settings.push(`key: [${keyParts(draw, field, isRoot).map((path) => JSON.stringify(path))}]`);
  const tags = draw.some(["All", `Result:{${resultPathOf(field)}}`, "Locale:{$context.locale}"]);
  if (!isRoot && draw.chance(50)) tags.push("Source:{$source.id}");
  if (field.args.includes("n")) tags.push("N:{$args.n}");
  if (draw.chance(40)) settings.push(`tags: [${tags.map((tag) => JSON.stringify(tag))}]`);
  return ` @cached(${settings.join(", ")})`;
}

/** The path to the ids in the values of a field, or to the values. */
const resultPathOf = ({ typeName, lists }: RandomField): string =>
  `$result${"[]".repeat(lists.length)}${LEAVES.includes(typeName) ? "" : ".id"}`;

function timings(draw: Draw): string[] {
  const settings = [
    `staleWhileRevalidate: ${1 + draw.int(90)}`,
    `refresh: ${draw.pick(["BACKGROUND", "FOREGROUND"])}`,
    "neverExpires: true",
    `staleIfError: ${draw.int(60)}`,
    `jitter: ${draw.int(10) / 10}`,
    `earlyRefresh: ${draw.int(30) / 10}`,
  ];
  return settings.filter((setting) => draw.chance(setting.startsWith("stale") ? 60 : 30));
}

/** Returns a random key that contains at least all arguments and the parent's id. */
function keyParts(draw: Draw, { args }: RandomField, isRoot: boolean): string[] {
  const parts = draw.chance(50) ? ["$args"] : args.map((arg) => `$args.${arg}`);
  if (!isRoot) parts.push("$source.id");
  return [...parts, ...draw.some(["$context.locale", "$selection"])];
}
