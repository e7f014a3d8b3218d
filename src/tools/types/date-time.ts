import type { ValueType } from "../../core/codec/value-type.js";
import { instanceOf } from "./instance.js";

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
