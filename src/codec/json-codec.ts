import { type Codec, Unstorable } from "./codec.js";

/** Deeper values are refused: they are cycles, or no answers to a query. */
const MAX_DEPTH = 200;
/** The only field of an object that stands for a value JSON does not know. A user's own field of this name is wrapped too. */
const TAG = "$gc";

/**
 * JSON, and beyond it: undefined, Date, BigInt, Map, Set, Buffer, Uint8Array, NaN, infinities and -0.
 * Text that needs none of these is plain JSON behind a `j`; the rest stands behind a `t`, with `{"$gc": [type, text]}` where JSON ends.
 * Class instances, functions, symbols and promises are refused, since what came back would be something else.
 */
export const jsonCodec: Codec = {
  encode(value) {
    const found = { isTagged: false };
    const plain = toPlain(value, "", 0, found);
    return (found.isTagged ? "t" : "j") + JSON.stringify(plain);
  },
  decode(text) {
    const value: unknown = JSON.parse(text.slice(1));
    if (text.startsWith("j")) return value;
    if (text.startsWith("t")) return fromPlain(value);
    throw new SyntaxError("text of this codec begins with `j` or `t`");
  },
};

function toPlain(value: unknown, path: string, depth: number, found: { isTagged: boolean }): unknown {
  const tagged = (type: string, content: unknown): unknown => {
    found.isTagged = true;
    return { [TAG]: [type, content] };
  };
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : tagged("n", Object.is(value, -0) ? "-0" : String(value));
    case "undefined":
      return tagged("u", 0);
    case "bigint":
      return tagged("i", String(value));
    case "object":
      return value === null ? null : objectToPlain(value, path, depth, found, tagged);
    default:
      throw new Unstorable(`a ${typeof value}`, path);
  }
}

function objectToPlain(
  value: object,
  path: string,
  depth: number,
  found: { isTagged: boolean },
  tagged: (type: string, content: unknown) => unknown,
): unknown {
  if (depth >= MAX_DEPTH) throw new Unstorable(`more than ${MAX_DEPTH} levels, or a cycle,`, "");
  const inner = (member: unknown, step: string): unknown => toPlain(member, path + step, depth + 1, found);
  if (Array.isArray(value)) return Array.from(value as unknown[], (member, index) => inner(member, `[${index}]`));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) {
    const plain: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
    for (const [name, member] of Object.entries(value)) plain[name] = inner(member, `.${name}`);
    return TAG in plain ? tagged("o", Object.entries(plain)) : plain;
  }
  if (prototype === Date.prototype) return tagged("d", String((value as Date).getTime()));
  if (prototype === Buffer.prototype) return tagged("b", (value as Buffer).toString("base64"));
  if (prototype === Uint8Array.prototype) return tagged("y", Buffer.from(value as Uint8Array).toString("base64"));
  if (prototype === Map.prototype)
    return tagged(
      "m",
      [...(value as Map<unknown, unknown>)].map(([key, member]) => [inner(key, ".keys()"), inner(member, ".values()")]),
    );
  if (prototype === Set.prototype)
    return tagged(
      "s",
      [...(value as Set<unknown>)].map((member) => inner(member, ".values()")),
    );
  throw new Unstorable(`an instance of ${className(prototype)}`, path);
}

function className(prototype: unknown): string {
  const maker = (prototype as { constructor?: { name?: unknown } }).constructor?.name;
  return typeof maker === "string" && maker !== "" ? maker : "a class";
}

function fromPlain(plain: unknown): unknown {
  if (typeof plain !== "object" || plain === null) return plain;
  if (Array.isArray(plain)) return plain.map(fromPlain);
  const tag = (plain as Record<string, unknown>)[TAG];
  if (Array.isArray(tag)) return fromTagged(tag[0], tag[1]);
  // A field named __proto__ stays a field: it is defined, never assigned.
  return Object.fromEntries(Object.entries(plain).map(([name, member]) => [name, fromPlain(member)]));
}

function fromTagged(type: unknown, content: unknown): unknown {
  const text = content as string;
  const list = content as readonly unknown[];
  switch (type) {
    case "n":
      return Number(text);
    case "u":
      return undefined;
    case "i":
      return BigInt(text);
    case "d":
      return new Date(Number(text));
    case "b":
      return Buffer.from(text, "base64");
    case "y":
      return new Uint8Array(Buffer.from(text, "base64"));
    case "m":
      return new Map((list as [unknown, unknown][]).map(([key, member]) => [fromPlain(key), fromPlain(member)]));
    case "s":
      return new Set(list.map(fromPlain));
    case "o":
      return Object.fromEntries((list as [string, unknown][]).map(([name, member]) => [name, fromPlain(member)]));
    default:
      throw new SyntaxError("an unknown type was stored");
  }
}
