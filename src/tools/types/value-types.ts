/** Entries of the option `types` for classes of other packages. */
import { types } from "node:util";
import { builtInOf } from "../../core/base/built-in.js";
import type { ValueType } from "../../core/codec/value-type.js";

/** A class, as far as its instances are concerned. */
type ClassOf<Instance> = abstract new (...args: never[]) => Instance;

/**
 * Returns a function that tells whether an object is an instance of `type` itself. An instance of a
 * subclass, or of another copy of the package, would not come back as what it was.
 */
function instanceOf(type: ClassOf<unknown>, caller: string): (value: object) => boolean {
  if (typeof type !== "function" || typeof type.prototype !== "object")
    throw new TypeError(`${caller}: expected a class, got ${type === null ? "null" : typeof type}`);
  const { prototype } = type as { prototype: object };
  return (value) =>
    Object.getPrototypeOf(value) === prototype && (value as { constructor?: unknown }).constructor === type;
}

/** Returns the value type of a class whose instances are one value of JSON, which is part of keys as well. */
function byValue<Instance>(
  caller: string,
  type: ClassOf<Instance>,
  write: (instance: Instance) => unknown,
  decode: (value: never) => unknown,
): Required<ValueType> {
  return { is: instanceOf(type, caller), encode: write, decode, keyOf: write as (instance: Instance) => string };
}

/** What `decimalType` uses of a class of decimal numbers. */
export type DecimalClass<Decimal extends { valueOf(): string | number }> = new (text: string) => Decimal;

/**
 * Returns the value type of a class of decimal numbers: decimal.js, `Prisma.Decimal`, big.js or
 * bignumber.js. 1.0 and 1.00 are one key. Throws a TypeError if `Decimal` is not a class.
 */
export function decimalType<Decimal extends { valueOf(): string | number }>(
  Decimal: DecimalClass<Decimal>,
): Required<ValueType> {
  // Unlike toString, valueOf has the sign of zero.
  return byValue(
    "decimalType",
    Decimal,
    (value) => String(value.valueOf()),
    (text: string) => new Decimal(text),
  );
}

/** What `objectIdType` uses of the class. */
export type ObjectIdClass<ObjectId extends { toHexString(): string }> = new (hex: string) => ObjectId;

/**
 * Returns the value type of MongoDB's `ObjectId`, which `bson`, `mongodb` and Mongoose (`Types.ObjectId`)
 * export. Throws a TypeError if `ObjectId` is not a class.
 */
export function objectIdType<ObjectId extends { toHexString(): string }>(
  ObjectId: ObjectIdClass<ObjectId>,
): Required<ValueType> {
  return byValue(
    "objectIdType",
    ObjectId,
    (value) => value.toHexString(),
    (hex: string) => new ObjectId(hex),
  );
}

/**
 * Returns the value type of a class whose `toJSON` returns all that an instance consists of, with
 * `fromJSON` to make an instance of that again: `jsonType(URL, (text: string) => new URL(text))`. If
 * `toJSON` returns a string, instances can be part of keys. Throws a TypeError if `type` is not a
 * class or `fromJSON` is not a function.
 */
export function jsonType<Instance extends { toJSON(): unknown }>(
  type: ClassOf<Instance>,
  fromJSON: (json: ReturnType<Instance["toJSON"]>) => Instance,
): Required<ValueType> {
  const valueType = byValue("jsonType", type, (value) => value.toJSON(), fromJSON as (json: never) => unknown);
  if (typeof fromJSON === "function") return valueType;
  throw new TypeError(
    `jsonType: expected a function that makes an instance of what toJSON returns, got ${typeof fromJSON}`,
  );
}

/**
 * Returns the value type of a class whose instances consist of their own properties, such as the
 * entities of TypeORM: these are stored and restored, and the constructor is not called. Methods and
 * getters of the class work as before. Properties with getters, such as lazy relations, cannot be stored.
 *
 * Throws a TypeError if `Entity` is not a class, or if it uses private `#` members, which exist only in
 * objects that its constructor has made. Those of base classes are not looked for.
 */
export function entityType<Entity extends object>(Entity: ClassOf<Entity>): ValueType {
  const is = instanceOf(Entity, "entityType");
  if (USES_PRIVATE_MEMBER.test(Function.prototype.toString.call(Entity)))
    throw new TypeError(
      `entityType: expected a class without private # members, got ${Entity.name}; write an entry with is, encode and decode for it`,
    );
  return {
    is,
    // The descriptors, since a getter must not be called, and what is not plain must be reported.
    encode: (value: Entity) => Object.defineProperties({}, Object.getOwnPropertyDescriptors(value)),
    decode: (fields: object) =>
      Object.create(Entity.prototype as object, Object.getOwnPropertyDescriptors(fields)) as unknown,
  };
}

const USES_PRIVATE_MEMBER = /\.#[\w$]/;

/**
 * Returns the value type of records that a Prisma client with `$extends({ result })` returns: proxies
 * that compute the added fields when they are read. They are stored with all fields computed, and
 * come back as plain objects. Other proxies of plain objects are treated alike.
 */
export function prismaResultType(): ValueType {
  return {
    is: (value) => types.isProxy(value) && builtInOf(value) === "Object",
    encode: (record: object) => ({ ...record }),
    decode: (fields: object) => fields,
  };
}

/** What `dateTimeType` uses of an instance. */
interface DateTimeLike {
  readonly isValid: boolean;
  readonly zone: { readonly type: string };
  readonly zoneName: string | null;
  readonly locale: string | null;
  readonly numberingSystem: string | null;
  readonly outputCalendar: string | null;
  toMillis(): number;
  toUTC(): { toISO(): string | null };
}

/** What `dateTimeType` uses of the class. */
export interface DateTimeClass {
  // biome-ignore lint/suspicious/noExplicitAny: luxon's constructor is private, so only its prototype can be named.
  readonly prototype: any;
  // biome-ignore lint/suspicious/noExplicitAny: the options of luxon's own types are narrower than what is passed here.
  fromMillis(milliseconds: number, options?: any): unknown;
}

/**
 * Returns the value type of luxon's `DateTime`. The zone, locale, numbering system and calendar are
 * restored; the zone of the system stays the zone of the system that reads the value. A key contains
 * the instant and the zone: what the rest is by default differs between processes. An invalid `DateTime`
 * is neither stored nor part of a key. Throws a TypeError if `DateTime` is not a class.
 */
export function dateTimeType(DateTime: DateTimeClass): Required<ValueType> {
  const isDateTime = instanceOf(DateTime as never, "dateTimeType");
  return {
    is: isDateTime,
    encode: (value: DateTimeLike) => [
      valid(value).toMillis(),
      zoneOf(value),
      value.locale,
      value.numberingSystem,
      value.outputCalendar,
    ],
    decode: ([milliseconds, zone, locale, numberingSystem, outputCalendar]: [number, ...unknown[]]) =>
      DateTime.fromMillis(milliseconds, { zone, locale, numberingSystem, outputCalendar }),
    keyOf: (value: DateTimeLike) => `${valid(value).toUTC().toISO()}[${zoneOf(value)}]`,
  };
}

const zoneOf = ({ zone, zoneName }: DateTimeLike): string | null => (zone.type === "system" ? "system" : zoneName);

function valid(value: DateTimeLike): DateTimeLike {
  if (value.isValid) return value;
  throw new TypeError("expected a valid DateTime, got an invalid one");
}
