/** What the keys of responses are made of: the schema, and what an operation depends on. */
import { hash as hashOf } from "node:crypto";
import { type GraphQLSchema, print, printSchema } from "graphql";
import { variablesOf } from "../base/graphql-version.js";
import { directivesOn } from "../directive/compile/directives.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { rulesOf, wrappedBy } from "../directive/compile/own-resolver.js";
import { listOf } from "../directive/compile/served-schema.js";
import { hintOf } from "../directive/hints/cache-control.js";
import { canonicalize } from "../keys/canonical.js";
import { type Key, RESPONSES, type Variant } from "../keys/key.js";
import { type Path, readPath } from "../keys/path.js";
import { namesOf } from "../loader/collected-reads.js";
import { contextChanged, type Identity, identityOf } from "../loader/identity.js";
import type { CacheParts } from "../parts.js";
import type { OperationPlan } from "./operation-plan.js";
import type { Operation } from "./response-execution.js";

/** Whose a response is. `identity`: that of the caller, also if the response is PUBLIC. */
export interface Owner {
  readonly identity: Identity | undefined;
  readonly isPrivate: boolean;
}

export interface ResponseKey extends Owner {
  readonly key: Key;
  /**
   * Whether it is refused if its execution reads something of the context that is not part of the
   * key. Then which properties there are is part of it: nobody sees who asks for a missing one.
   */
  readonly isWatched: boolean;
  readonly contextPaths: readonly string[];
  /** Returns the error of a context that is no longer the one that the key was made from. */
  changed(): ReturnType<typeof contextChanged> | undefined;
}

/** Undefined if a part cannot be written, or is missing, which is logged once. */
export function responseKey(
  { keys, identify, onceLog, contextWatch }: CacheParts,
  { schema, variables, context }: Operation,
  plan: OperationPlan,
  { identity, isPrivate }: Owner,
  { variant, keyPaths }: { readonly variant: Variant; readonly keyPaths: readonly Path[] },
): ResponseKey | undefined {
  const coerced = variablesOf(schema, plan.operation, variables ?? {});
  if (coerced === undefined) return undefined;
  const paths = new Map([...keyPaths, ...plan.contextPaths].map((path) => [path.text, path]));
  const contextPaths = [...paths.keys()];
  const isWatched = !isPrivate && !plan.isPublic;
  const contextParts = (): string[] =>
    [...paths.values()].map((path) => canonicalize(readPath(path, { context }), keys.writers.byText));
  try {
    // As in the key of a field, null is no value: it could stand for another one with each caller.
    const missing = keyPaths.find((path) => readPath(path, { context }).length === 0);
    if (missing !== undefined) {
      onceLog.warn(
        `graphql-cached: a response is not stored: its \`key\` needs \`${missing.text}\`, which is missing; set it in the server's context function, for every caller, or remove it from \`responses.key\``,
      );
      return undefined;
    }
    const before = contextParts();
    const parts = JSON.stringify([
      plan.digest,
      // A server can show more to those who are signed in.
      identity !== undefined,
      contextPaths,
      before,
      canonicalize(coerced, keys.writers.exact),
      isWatched ? contextWatch.notShared(namesOf(context)) : [],
    ]);
    const owner = isPrivate ? identity : undefined;
    const key = keys.entry({ kind: "response", coordinate: RESPONSES, identity: owner, parts }, variant);
    const changed = (): ReturnType<typeof contextChanged> | undefined => {
      if (identityOf(identify, context) !== identity) return contextChanged(RESPONSES, "identity");
      const now = contextParts();
      const nth = before.findIndex((part, index) => part !== now[index]);
      return nth < 0 ? undefined : contextChanged(RESPONSES, contextPaths[nth] as string);
    };
    return { key, identity, isPrivate, isWatched, contextPaths, changed };
  } catch {
    return undefined;
  }
}

/** Returns the digest of all in a schema that decides about responses, for releases to differ. */
export function shapeOf(schema: GraphQLSchema, parts: CacheParts): string {
  const { fields, objectTags } = rulesOf(schema, parts);
  // Printing the schema leaves them out.
  const annotated = Object.values(schema.getTypeMap()).flatMap((type) => [
    [type.name, directivesOn(type).map(print)],
    ...("getFields" in type ? Object.values(type.getFields()) : []).map((field) => [
      `${type.name}.${field.name}`,
      directivesOn(field).map(print),
    ]),
  ]);
  const policies = [...fields.values()].map((rule) => [rule.coordinate, rule.variant.id, rule.policy, rule.settings]);
  const described = [printSchema(schema), annotated, policies, [...objectTags].sort()];
  return hashOf("sha256", JSON.stringify(described), "base64url");
}

/** Logs once which responses only their age, or what their resolvers read, makes outdated. */
export function reportStart(schema: GraphQLSchema, parts: CacheParts): void {
  const root = schema.getQueryType();
  const { fields } = rulesOf(schema, parts);
  const kept = Object.values(root?.getFields() ?? {})
    .filter((field: AnyField) => (hintOf(field).maxAge ?? 0) > 0)
    // With entity tags, the entities that it returns are parts of the response.
    .filter(({ resolve }) => resolve === undefined || wrappedBy(resolve)?.usesCache !== true)
    .map(({ name }) => `${root?.name}.${name}`)
    .filter((coordinate) => !fields.has(coordinate));
  if (kept.length === 0) return;
  parts.onceLog.info(
    `graphql-cached: responses with ${listOf(kept)} are kept for their maxAge, whatever changes, unless their resolvers read cached fields or loaders; add @cached with tags to what mutations change`,
  );
}
