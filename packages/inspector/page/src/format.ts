/** Numbers, times and names in words. */

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Returns a count in a few characters, such as 12,345 or 1.2M. */
export function count(value: number | null | undefined): string {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  return (value < 100_000 ? plain : compact).format(value);
}

/** Returns a duration, such as 850 ms, 12 s or 3 h. */
export function duration(ms: number | null | undefined): string {
  if (typeof ms !== "number" || !Number.isFinite(ms)) return "–";
  const size = Math.abs(ms);
  if (size < 10) return `${Math.round(ms * 10) / 10} ms`;
  if (size < 1_000) return `${Math.round(ms)} ms`;
  if (size < 10_000) return `${Math.round(ms / 100) / 10} s`;
  if (size < 120_000) return `${Math.round(ms / 1_000)} s`;
  if (size < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  return size < 172_800_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} days`;
}

/** Returns seconds of a policy. */
export const seconds = (value: number): string => (value === 0 ? "0 s" : duration(value * 1_000));

/** Returns a ratio as a percentage, rounded down so that only all of it is 100 %. */
export const percent = (ratio: number | null | undefined): string =>
  typeof ratio !== "number" || !Number.isFinite(ratio)
    ? "–"
    : ratio > 0 && ratio < 0.01
      ? "<1 %"
      : `${Math.floor(ratio * 100)} %`;

export const bytes = (value: number): string =>
  value < 1_024
    ? `${value} B`
    : value < 1_048_576
      ? `${(value / 1_024).toFixed(1)} KiB`
      : `${(value / 1_048_576).toFixed(1)} MiB`;

const two = (value: number): string => String(value).padStart(2, "0");

/** Returns the hour and the minute. */
export const timeOfDay = (at: Date | number): string =>
  `${two(new Date(at).getHours())}:${two(new Date(at).getMinutes())}`;

/** Returns the time of day, with the date if it is another one than today. */
export function clock(at: string | number): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "–";
  const time = `${timeOfDay(date)}:${two(date.getSeconds())}`;
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}

/** Returns how long ago something was. */
export function ago(at: string | null | undefined): string {
  const ms = Date.now() - Date.parse(at ?? "");
  if (Number.isNaN(ms)) return "at an unknown time";
  return ms < 1_000 ? "just now" : `${duration(ms)} ago`;
}

const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Returns text of elsewhere with invisible characters spelled out, such as those that reverse the direction of text. */
export function visible(value: unknown, maxLength = 400): string {
  const text = typeof value === "string" ? value : String(value);
  const cut = text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
  return cut.replace(UNPRINTABLE, (one) => `\\u${(one.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`);
}

/** Returns the word for a constant, such as `never expires` for NEVER_EXPIRES. */
export const words = (constant: string): string => visible(constant).toLowerCase().replaceAll("_", " ");

export const plural = (value: number, one: string, many = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`;
