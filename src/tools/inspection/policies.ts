import { attempt } from "../../core/base/built-in.js";
import { canMatch, parseTagTemplate, type TagTemplate } from "../../core/keys/tag-template.js";
import type { CacheParts } from "../../core/parts.js";
import type { Policy, PolicySettings } from "../../core/policy/policy.js";
import type { EntityFinder, SchemaRules } from "../../core/schema-rules.js";
import type { CacheFieldPolicy, CachePolicy } from "../../generated/schema.js";

/** Returns the policies of the fields of this process, and then of its loaders, by name. */
export function describePolicies({ rules, loaders }: CacheParts): CacheFieldPolicy[] {
  const fields = [...rules.fields.values()].map((rule): CacheFieldPolicy => {
    const texts = { key: rule.keyPaths.map(({ text }) => text), tags: rule.tags.map(({ text }) => text) };
    return {
      coordinate: rule.coordinate,
      kind: rule.reference === undefined ? "FIELD" : "REFERENCE",
      policy: policyOf(rule.policy, rule.settings, texts),
      variant: rule.variant.id,
      invalidatedBy: invalidatorsOf(rule, rules),
    };
  });
  const ofLoaders = [...loaders.values()].map(
    ({ name, policy, settings, variantOf }): CacheFieldPolicy => ({
      coordinate: name,
      kind: "LOADER",
      policy: policyOf(policy, settings),
      get variant() {
        return attempt(variantOf)?.id ?? null;
      },
      invalidatedBy: [],
    }),
  );
  const byName = (a: CacheFieldPolicy, b: CacheFieldPolicy): number => (a.coordinate < b.coordinate ? -1 : 1);
  return [...fields.sort(byName), ...ofLoaders.sort(byName)];
}

function policyOf(policy: Policy, settings: PolicySettings, texts?: Pick<CachePolicy, "key" | "tags">): CachePolicy {
  return {
    maxAge: policy.maxAgeMs / 1000,
    maxAgeLimit: policy.maxAgeLimitMs === undefined ? null : policy.maxAgeLimitMs / 1000,
    staleWhileRevalidate: policy.staleWhileRevalidateMs / 1000,
    refresh: policy.refresh,
    neverExpires: policy.neverExpires,
    staleIfError: policy.staleIfErrorMs / 1000,
    negativeMaxAge: policy.negativeMaxAgeMs / 1000,
    jitter: policy.jitterRatio,
    earlyRefresh: policy.earlyRefreshBeta,
    scope: policy.scope,
    readOnly: policy.readOnly === true,
    key: texts?.key ?? null,
    tags: texts?.tags ?? null,
    version: settings.version ?? null,
    followsHints: policy.followsHints === true,
  };
}

/** What has tags: a cached field, or a mutation field that invalidates them. */
interface Tagged {
  readonly tags: readonly TagTemplate[];
  readonly entities: EntityFinder | undefined;
}

function invalidatorsOf(field: Tagged, { invalidations }: SchemaRules): string[] {
  const own = templatesOf(field);
  const meets = (rule: Tagged): boolean => templatesOf(rule).some((tag) => own.some((other) => canMatch(tag, other)));
  return [...invalidations].flatMap(([coordinate, rule]) => (meets(rule) ? [coordinate] : [])).sort();
}

const templatesOf = ({ tags, entities }: Tagged): readonly TagTemplate[] => [
  ...tags,
  ...[...(entities?.typeNames ?? [])].flatMap((name) => parseTagTemplate(`${name}:{$result.id}`) ?? []),
];
