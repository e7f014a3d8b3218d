import type { Draw } from "./draw.js";
import { ARGS, FILTER, type RandomField, type RandomSchema } from "./random-schema.js";

export interface RandomQuery {
  readonly source: string;
  readonly variables: Readonly<Record<string, unknown>>;
}

const MAX_DEPTH = 3;

/**
 * Returns a random query with aliases, fragments, inline fragments, variables, conditions,
 * `__typename` and repeated fields.
 */
export function randomQuery(schema: RandomSchema, draw: Draw): RandomQuery {
  return new QueryBuilder(schema, draw).build();
}

class QueryBuilder {
  readonly #schema: RandomSchema;
  readonly #draw: Draw;
  readonly #variables: Record<string, unknown> = {};
  readonly #declared: string[] = [];
  readonly #fragments: string[] = [];
  #aliases = 0;

  constructor(schema: RandomSchema, draw: Draw) {
    this.#schema = schema;
    this.#draw = draw;
  }

  build(): RandomQuery {
    const body = this.#selection("Query", 0);
    const name = this.#draw.chance(30) ? ` ${this.#draw.pick(["A", "B"])}` : "";
    const head = this.#declared.length === 0 ? `query${name}` : `query${name} (${this.#declared.join(", ")})`;
    return { source: [`${head} ${body}`, ...this.#fragments].join("\n"), variables: this.#variables };
  }

  #selection(type: string, depth: number): string {
    const draw = this.#draw;
    const members = this.#schema.members[type];
    const parts: string[] = [];
    if (draw.chance(40)) parts.push(`${this.#alias()}: __typename`);
    if (members !== undefined) {
      if (type === "Node") parts.push("id", "name");
      for (const member of draw.some(members)) parts.push(`... on ${member} ${this.#selection(member, depth)}`);
      return `{ ${["__typename", ...parts].join(" ")} }`;
    }
    if (type !== "Query") parts.push(...draw.some(["id", "name"]));
    for (const field of draw.some(this.#schema.objects[type] ?? []))
      for (let times = 1 + Number(draw.chance(25)); times > 0; times--) parts.push(this.#field(field, depth));
    const selection = `{ ${["__typename", ...parts].join(" ")} }`;
    if (!draw.chance(20)) return selection;
    const name = `F${this.#fragments.length}`;
    this.#fragments.push(`fragment ${name} on ${type} ${selection}`);
    return `{ ...${name} }`;
  }

  #field(field: RandomField, depth: number): string {
    const isObject = field.typeName in this.#schema.objects || field.typeName in this.#schema.members;
    if (isObject && depth >= MAX_DEPTH) return "";
    const draw = this.#draw;
    const passed = field.args.filter(() => draw.chance(70)).map((arg) => `${arg}: ${this.#argument(arg)}`);
    const args = passed.length === 0 ? "" : `(${passed.join(", ")})`;
    const condition = draw.chance(10)
      ? ` @${draw.pick(["skip", "include"])}(if: ${this.#variable("Boolean!", draw.chance(50))})`
      : "";
    const alias = this.#alias();
    const fieldText = (): string =>
      `${alias}: ${field.name}${args}${condition}${isObject ? ` ${this.#selection(field.typeName, depth + 1)}` : ""}`;
    // The same response key selected twice: the sub-selections are merged.
    return draw.chance(10) ? `${fieldText()} ${fieldText()}` : fieldText();
  }

  #argument(name: string): string {
    const [type = ""] = (ARGS[name] ?? "").split(" = ");
    const value = this.#value(type, 0);
    return this.#draw.chance(40) ? this.#variable(type, value) : literal(value, type);
  }

  #variable(type: string, value: unknown): string {
    const name = `$v${this.#declared.length}`;
    this.#declared.push(`${name}: ${type}`);
    if (value !== undefined) this.#variables[name.slice(1)] = value;
    return name;
  }

  /** Returns a value in its JSON form. */
  #value(type: string, depth: number): unknown {
    const draw = this.#draw;
    if (!type.endsWith("!") && draw.chance(15)) return null;
    const [, inner] = /^\[(.*)\]!?$/.exec(type) ?? [];
    if (inner !== undefined) return Array.from({ length: draw.int(2) }, () => this.#value(inner, depth));
    switch (type.replace("!", "")) {
      case "Int":
        return draw.int(2);
      case "Float":
        return draw.pick([0, 0.5]);
      case "Boolean":
        return draw.chance(50);
      case "Color":
        return draw.pick(["RED", "GREEN", "BLUE"]);
      case "Date":
        return `202${draw.int(3)}-01-01T00:00:00.000Z`;
      case "Big":
        return String(10n ** BigInt(draw.int(30)));
      case "Filter":
        return Object.fromEntries(
          draw
            .some(Object.entries(FILTER))
            .filter(([, fieldType]) => fieldType !== "Filter" || depth < 2)
            .map(([name, fieldType]) => [name, this.#value(fieldType.split(" = ")[0] ?? "", depth + 1)]),
        );
      default:
        return draw.pick(["", "a", "1"]);
    }
  }

  #alias(): string {
    return `a${this.#aliases++}`;
  }
}

/** Returns a value in GraphQL literal syntax. */
function literal(value: unknown, type: string): string {
  if (value === null) return "null";
  if (Array.isArray(value)) {
    const [, inner = ""] = /^\[(.*)\]!?$/.exec(type) ?? [];
    return `[${value.map((member) => literal(member, inner)).join(", ")}]`;
  }
  if (typeof value === "object") {
    const fields = Object.entries(value).map(
      ([name, member]) => `${name}: ${literal(member, FILTER[name]?.split(" = ")[0] ?? "")}`,
    );
    return `{ ${fields.reverse().join(", ")} }`;
  }
  return type.startsWith("Color") ? String(value) : JSON.stringify(value);
}
