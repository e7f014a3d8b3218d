import type { Draw } from "./draw.js";

/** One field of a random schema. Its type is a leaf's or an object's name in `open` and `close`, such as `[` and `!]!`. */
export interface RandomField {
  readonly name: string;
  readonly named: string;
  /** From the outside in: is it a list, and may it be null there? */
  readonly lists: readonly { readonly isNullable: boolean }[];
  readonly isNullable: boolean;
  readonly args: readonly string[];
  /** A field without a resolver reads a property of its parent. */
  readonly hasResolver: boolean;
}

export interface RandomSchema {
  readonly objects: Readonly<Record<string, readonly RandomField[]>>;
  /** What an abstract type's value may be. */
  readonly members: Readonly<Record<string, readonly string[]>>;
  readonly typeDefs: string;
  /** Another salt, other data. */
  readonly salt: string;
}

/** The arguments there are: by name, their type with its default. */
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

/** A random schema, with random policies on its fields and types. All that a field's value may depend on is in its key. */
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
    named: draw.pick(isObject ? composites : LEAVES),
    lists: Array.from({ length: draw.pick([0, 0, 1, 1, 2]) }, () => ({ isNullable: draw.chance(70) })),
    isNullable: draw.chance(70),
    args: hasResolver ? draw.some(Object.keys(ARGS)).slice(0, 3) : [],
    hasResolver,
  };
}

/** The type of a field, as SDL has it. */
export function typeOf({ named, lists, isNullable }: RandomField): string {
  return lists.reduceRight(
    (inner, list) => `[${inner}]${list.isNullable ? "" : "!"}`,
    `${named}${isNullable ? "" : "!"}`,
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
  draw.chance(40) ? ` @cached(${[`maxAge: ${1 + draw.int(60)}`, ...times(draw)].join(", ")})` : "";

function fieldPolicy(draw: Draw, field: RandomField, isRoot: boolean): string {
  const maxAge = draw.int(60);
  const said = [`maxAge: ${maxAge}`, ...times(draw)];
  if (draw.chance(30)) said.push(`negativeMaxAge: ${draw.int(maxAge)}`);
  // What is private needs a resolver of its own, or it would come with its public parent.
  if (field.hasResolver && draw.chance(30)) said.push("scope: PRIVATE");
  if (draw.chance(50)) said.push(`key: [${key(draw, field, isRoot).map((path) => JSON.stringify(path))}]`);
  const tags = draw.some(["All", "Result:{$result.id}", "Each:{$result[].id}", "Locale:{$context.locale}"]);
  if (!isRoot && draw.chance(50)) tags.push("Source:{$source.id}");
  if (field.args.includes("n")) tags.push("N:{$args.n}");
  if (draw.chance(40)) said.push(`tags: [${tags.map((tag) => JSON.stringify(tag))}]`);
  return ` @cached(${said.join(", ")})`;
}

function times(draw: Draw): string[] {
  const said = [
    `staleWhileRevalidate: ${1 + draw.int(90)}`,
    `refresh: ${draw.pick(["BACKGROUND", "FOREGROUND"])}`,
    "neverExpires: true",
    `staleIfError: ${draw.int(60)}`,
    `jitter: ${draw.int(10) / 10}`,
    `earlyRefresh: ${draw.int(30) / 10}`,
  ];
  return said.filter((one) => draw.chance(one.startsWith("stale") ? 60 : 30));
}

/** Every key there is that holds all arguments and the parent's id. */
function key(draw: Draw, { args }: RandomField, isRoot: boolean): string[] {
  const parts = draw.chance(50) ? ["$args"] : args.map((arg) => `$args.${arg}`);
  if (!isRoot) parts.push("$source.id");
  return [...parts, ...draw.some(["$context.locale", "$selection"])];
}
