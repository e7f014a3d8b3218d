import { describeSetting } from "../errors.js";

/** What a field, a type, a loader or a profile says about caching. Durations are whole seconds, as in the SDL. Absent means not said. */
export interface PolicySettings {
  readonly maxAge?: number;
  readonly staleWhileRevalidate?: number;
  readonly refresh?: "BACKGROUND" | "FOREGROUND";
  readonly neverExpires?: boolean;
  readonly staleIfError?: number;
  readonly negativeMaxAge?: number;
  readonly jitter?: number;
  readonly earlyRefresh?: number;
  readonly scope?: "PUBLIC" | "PRIVATE";
  readonly key?: readonly string[];
  readonly tags?: readonly string[];
  readonly profile?: string;
}

/** The rules by which one field's or loader's values are kept: complete, in milliseconds. */
export interface Policy {
  readonly maxAgeMs: number;
  readonly staleWhileRevalidateMs: number;
  readonly refresh: "BACKGROUND" | "FOREGROUND";
  readonly neverExpires: boolean;
  readonly staleIfErrorMs: number;
  readonly negativeMaxAgeMs: number;
  readonly jitterRatio: number;
  readonly earlyRefreshBeta: number;
  readonly scope: "PUBLIC" | "PRIVATE";
}

/** Says what was expected where `value` does not fit; undefined where it fits. */
type Check = (value: unknown) => string | undefined;

const wholeSeconds: Check = (value) =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 2_147_483_647
    ? undefined
    : "a whole number of seconds, 0 or more";
const ratio: Check = (value) =>
  typeof value === "number" && value >= 0 && value <= 1 ? undefined : "a number from 0 to 1";
const positive: Check = (value) =>
  typeof value === "number" && value >= 0 && Number.isFinite(value) ? undefined : "a number, 0 or more";
const flag: Check = (value) => (typeof value === "boolean" ? undefined : "true or false");
const name: Check = (value) => (typeof value === "string" && value !== "" ? undefined : "a name");
const names: Check = (value) =>
  Array.isArray(value) && value.every((member) => typeof member === "string") ? undefined : "a list of strings";
const oneOf =
  (...allowed: readonly string[]): Check =>
  (value) =>
    allowed.includes(value as string) ? undefined : allowed.join(" or ");

const CHECKS: Readonly<Record<keyof PolicySettings, Check>> = {
  maxAge: wholeSeconds,
  staleWhileRevalidate: wholeSeconds,
  refresh: oneOf("BACKGROUND", "FOREGROUND"),
  neverExpires: flag,
  staleIfError: wholeSeconds,
  negativeMaxAge: wholeSeconds,
  jitter: ratio,
  earlyRefresh: positive,
  scope: oneOf("PUBLIC", "PRIVATE"),
  key: names,
  tags: names,
  profile: name,
};

/** What may be said wherever a policy stands, also far from the field it is for. */
export const GENERAL_SETTINGS: readonly string[] = Object.keys(CHECKS).filter(
  (setting) => !["key", "tags", "profile"].includes(setting),
);

/** Everything wrong with `settings` by itself, one sentence each; empty where nothing is. `null` and undefined count as not said. */
export function settingsMistakes(settings: unknown, allowed: readonly string[] = Object.keys(CHECKS)): string[] {
  if (typeof settings !== "object" || settings === null || Array.isArray(settings))
    return [`an object of policy settings was expected, ${describeSetting(settings)} came`];
  const mistakes: string[] = [];
  for (const [setting, value] of Object.entries(settings)) {
    if (!allowed.includes(setting)) {
      mistakes.push(
        `\`${setting}\` is not a setting here; there are ${allowed.map((known) => `\`${known}\``).join(", ")}`,
      );
    } else if (value !== undefined && value !== null) {
      const expected = CHECKS[setting as keyof PolicySettings](value);
      if (expected !== undefined) mistakes.push(`\`${setting}\` must be ${expected}, ${describeSetting(value)} came`);
    }
  }
  return mistakes;
}

/** Lays `layers` over one another, the first wins; what a layer does not say, or says as null, the next one does. */
export function mergeSettings(...layers: readonly (PolicySettings | undefined)[]): PolicySettings {
  const merged: Record<string, unknown> = {};
  for (const layer of layers)
    for (const [setting, value] of Object.entries(layer ?? {}))
      if (value !== undefined && value !== null && !(setting in merged)) merged[setting] = value;
  return merged as PolicySettings;
}

/** The layers of one field, nearest first, and the profiles they may name. */
export interface PolicyLayers {
  readonly said: readonly (PolicySettings | undefined)[];
  readonly profiles: Readonly<Record<string, PolicySettings>>;
  readonly defaults: PolicySettings;
}

/**
 * Merges what field, type, profile and defaults say, in this order, and turns seconds into milliseconds, the only place that does.
 * Answers the merged settings, the policy, and the mistakes that show only once they are merged.
 */
export function compilePolicy(layers: PolicyLayers): { settings: PolicySettings; policy: Policy; mistakes: string[] } {
  const mistakes: string[] = [];
  const said = mergeSettings(...layers.said);
  const profileName = said.profile;
  const profile =
    profileName !== undefined && Object.hasOwn(layers.profiles, profileName) ? layers.profiles[profileName] : undefined;
  if (profileName !== undefined && profile === undefined)
    mistakes.push(
      `the profile ${describeSetting(profileName)} does not exist; createCache({ profiles }) has ${listed(Object.keys(layers.profiles))}`,
    );
  const settings = mergeSettings(said, profile, layers.defaults);
  if (settings.maxAge === undefined && mistakes.length === 0)
    mistakes.push("no `maxAge` is said, neither here nor by a profile or the defaults; say `maxAge`, in seconds");
  const maxAge = settings.maxAge ?? 0;
  // A negativeMaxAge that comes from further away than the maxAge gives way to it; said together, the contradiction is reported.
  if (said.negativeMaxAge !== undefined && said.negativeMaxAge > maxAge)
    mistakes.push(`\`negativeMaxAge\` must be at most maxAge (${maxAge}), ${said.negativeMaxAge} came`);
  const policy: Policy = {
    maxAgeMs: maxAge * 1000,
    staleWhileRevalidateMs: (settings.staleWhileRevalidate ?? 0) * 1000,
    refresh: settings.refresh ?? "BACKGROUND",
    neverExpires: settings.neverExpires ?? false,
    staleIfErrorMs: (settings.staleIfError ?? 0) * 1000,
    negativeMaxAgeMs: Math.min(settings.negativeMaxAge ?? maxAge, maxAge) * 1000,
    jitterRatio: settings.jitter ?? 0.1,
    earlyRefreshBeta: settings.earlyRefresh ?? 1,
    scope: settings.scope ?? "PUBLIC",
  };
  return { settings, policy, mistakes };
}

const listed = (names: readonly string[]): string =>
  names.length === 0 ? "none" : names.map((known) => `\`${known}\``).join(", ");
