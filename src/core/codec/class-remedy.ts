import { types } from "node:util";

/**
 * Returns what to do about an object that cannot be stored because of its class, in one line;
 * undefined if there is nothing to say beyond that plain data is expected.
 */
export function remedyFor(value: object): string | undefined {
  if (types.isProxy(value))
    return "return a copy, such as { ...record }, or add `Record: prismaResultType()` from graphql-cached/types to createCache({ types }) if Prisma returned it";
  if (isStream(value)) return "a stream can be read once; read it to its end and return the data";
  if (isBody(value)) return "read it, with .json() or .text(), and return the data";
  const { constructor: type, toJSON } = value as { constructor?: { name?: unknown }; toJSON?: unknown };
  const name = type?.name;
  if (typeof name !== "string" || !/^[A-Za-z_]\w{0,63}$/.test(name) || isNative(type)) return undefined;
  if (isOfPlatform(name, type) && typeof toJSON !== "function") return "return plain data made of it";
  if (isMongooseDocument(value)) return "add .lean() to the query, or return document.toObject()";
  if (isSequelizeModel(value)) return "add { raw: true } to the query, or return model.get({ plain: true })";
  const entry =
    READY_MADE[name] !== undefined
      ? `${READY_MADE[name]}(${name})`
      : typeof toJSON === "function"
        ? `jsonType(${name}, (json) => …)`
        : `entityType(${name})`;
  return `add \`${name}: ${entry}\` from graphql-cached/types to createCache({ types }), or return plain data`;
}

/** The classes for which `graphql-cached/types` has a function, by name. */
const READY_MADE: Readonly<Record<string, string>> = {
  Decimal: "decimalType",
  ObjectId: "objectIdType",
  DateTime: "dateTimeType",
};

/** Whether a class comes with JavaScript: what its instances hold is not in their properties. */
const isNative = (type: unknown): boolean =>
  typeof type === "function" && /\{\s*\[native code\]\s*\}$/.test(Function.prototype.toString.call(type));

/** Whether a class comes with Node.js, as Headers does: its instances hold their data outside of their properties. */
const isOfPlatform = (name: string, type: unknown): boolean =>
  (globalThis as Readonly<Record<string, unknown>>)[name] === type;

const hasMethod = (value: object, name: PropertyKey): boolean =>
  typeof (value as Readonly<Record<PropertyKey, unknown>>)[name] === "function";

const isStream = (value: object): boolean =>
  hasMethod(value, "pipe") || hasMethod(value, "getReader") || hasMethod(value, Symbol.asyncIterator);

/** A request or response of fetch. */
const isBody = (value: object): boolean => hasMethod(value, "json") && hasMethod(value, "text");

const isMongooseDocument = (value: object): boolean => "$__" in value && "$isNew" in value;

const isSequelizeModel = (value: object): boolean => "dataValues" in value && "sequelize" in value;
