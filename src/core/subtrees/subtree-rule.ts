import { Selections } from "../directive/look-ahead/selection.js";
import { canonicalize } from "../keys/canonical.js";
import { readPath } from "../keys/path.js";
import type { CacheParts } from "../parts.js";
import type { Policy } from "../policy/policy.js";
import type { FieldRule, KeyPath, QueryUse } from "../schema-rules.js";
import type { Fragments, SelectionPlan } from "./selection-plan.js";
import { originalsOf } from "./twins.js";

/** Returns the rule of the subtrees of a field with one selection. */
export function subtreeRule(rule: FieldRule, plan: SelectionPlan, parts: CacheParts, fragments: Fragments): FieldRule {
  const { keys } = parts;
  const selections = new Selections(keys.writers.exact, false);
  const definitions = Object.fromEntries(fragments);
  const contextPaths = new Map([...rule.contextPaths, ...plan.contextPaths].map((path) => [path.text, path]));
  const selectionText: QueryUse["selectionText"] = (info, context) => {
    const nodes = originalsOf(info);
    const text = selections.textOf({ ...info, fieldNodes: nodes, fragments: definitions });
    const inContext = plan.contextPaths.map((path) => canonicalize(readPath(path, { context }), keys.writers.byText));
    return JSON.stringify([plan.typesDigest, text, inContext]);
  };
  const selection: KeyPath = { text: "$selection", root: "selection", steps: [], write: String, isOptional: false };
  return {
    ...rule,
    kind: "subtree",
    policy: narrowestPolicy(
      rule.policy,
      plan.rules.map(({ policy }) => policy),
    ),
    variant: {
      id: keys.variant({ kind: "subtree", shape: "", versions: [rule.variant.id], keyTemplate: [], tagTemplates: [] })
        .id,
      // Invalidations name what is selected below as they name the field.
      form: rule.variant.form,
    },
    keyPaths: [...rule.keyPaths, selection],
    tags: rule.knownTags,
    resultTags: [],
    declaresSelection: true,
    contextPaths: [...contextPaths.values()],
    entities: undefined,
    canKeySelection: true,
    queryUse: {
      extent: "none",
      selectionText,
      operationText: () => "",
      observe: (info) => ({ info, excess: () => undefined }),
    },
  };
}

/** Returns the narrowest of the policies of a field and of the cached fields below it. The value is shared by all its readers. */
function narrowestPolicy(own: Policy, below: readonly Policy[]): Policy {
  const least = (ofPolicy: (policy: Policy) => number): number => Math.min(...[own, ...below].map(ofPolicy));
  const maxAgeMs = least((policy) => policy.maxAgeMs);
  const { maxAgeLimitMs: _limit, followsHints: _follows, isDeclaredPublic: _declared, ...others } = own;
  return {
    ...others,
    maxAgeMs,
    negativeMaxAgeMs: Math.min(own.negativeMaxAgeMs, maxAgeMs),
    staleWhileRevalidateMs: least((policy) => policy.staleWhileRevalidateMs),
    staleIfErrorMs: least((policy) => policy.staleIfErrorMs),
    neverExpires: own.neverExpires && below.every((policy) => policy.neverExpires),
    readOnly: true,
  };
}
