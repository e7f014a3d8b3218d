/** What the keys of responses are made of: the schema, and what an operation depends on. */
import { hash as hashOf } from "node:crypto";
import { type GraphQLSchema, print, printSchema } from "graphql";
import { variablesOf } from "../base/graphql-version.js";
import { directivesOn } from "../directive/compile/directives.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { wrappedBy } from "../directive/compile/own-resolver.js";
import { listOf } from "../directive/compile/served-schema.js";
import { hintOf } from "../directive/hints/cache-control.js";
import { canonicalize } from "../keys/canonical.js";
import { type Key, RESPONSES, type Variant } from "../keys/key.js";
import { type Path, readPath } from "../keys/path.js";
import { namesOf } from "../loader/collected-reads.js";
import { contextChanged, type Identity, identityOf } from "../loader/identity.js";
import type { CacheParts } from "../parts.js";
import type { SchemaRules } from "../schema-rules.js";
import type { OperationPlan } from "./operation-plan.js";
import type { Operation } from "./response-execution.js";

export interface ResponseKey {
  readonly key: Key;
  readonly identity: Identity | undefined;
  readonly isPrivate: boolean;
  /** Whether what its execution reads of the context is watched. */
  readonly isWatched: boolean;
  readonly contextPaths: readonly string[];
  /**
   * Returns the error of a response whose context is no longer the one that its key was made from.
   */
  changed(): ReturnType<typeof contextChanged> | undefined;
}

/**
 * Returns the key of a response. Undefined if a part of it cannot be written, or is missing, which
 * is logged once. `keyPaths`: those of the options.
 */
export function responseKey(
  { keys, identify, onceLog, contextWatch }: CacheParts,
  { schema, variables, context }: Operation,
  plan: OperationPlan,
  {
    variant,
    keyPaths,
    identity,
    isPrivate,
    isWatched,
  }: {
    readonly variant: Variant;
    readonly keyPaths: readonly Path[];
    /** That of the caller, also if the response is PUBLIC. */
    readonly identity: Identity | undefined;
    readonly isPrivate: boolean;
    /**
     * Whether it is refused if it depends on the context otherwise: then which properties there are
     * is a part of the key, since nobody sees who asks for one that is missing.
     */
    readonly isWatched: boolean;
  },
): ResponseKey | undefined {
  const coerced = variablesOf(schema, plan.operation, variables ?? {});
  if (coerced === undefined) return undefined;
  const paths = new Map([...keyPaths, ...plan.contextPaths].map((path) => [path.text, path]));
  const contextPaths = [...paths.keys()];
  const missing = contextPathWithoutValue(keyPaths, context);
  if (missing !== undefined) {
    onceLog.warn(
      `graphql-cached: a response is not stored: its \`key\` needs \`${missing.text}\`, which is missing; set it in the server's context function, for every caller, or remove it from \`responses.key\``,
    );
    return undefined;
  }
  const contextParts = (): string[] =>
    [...paths.values()].map((path) => canonicalize(readPath(path, { context }), keys.writers.byText));
  try {
    const before = contextParts();
    const parts = JSON.stringify([
      plan.digest,
      // What a server shows to everybody who is signed in, it need not show to others.
      identity !== undefined,
      contextPaths,
      before,
      canonicalize(coerced, keys.writers.exact),
      isWatched ? contextWatch.notShared(namesOf(context)) : [],
    ]);
    const owner = isPrivate ? identity : undefined;
    return {
      key: keys.entry({ kind: "response", coordinate: RESPONSES, identity: owner, parts }, variant),
      identity,
      isPrivate,
      isWatched,
      contextPaths,
      changed() {
        if (identityOf(identify, context) !== identity) return contextChanged(RESPONSES, "identity");
        const now = contextParts();
        const changed = before.findIndex((part, index) => part !== now[index]);
        return changed < 0 ? undefined : contextChanged(RESPONSES, contextPaths[changed] as string);
      },
    };
  } catch {
    return undefined;
  }
}

/**
 * As in the key of a field, null is no value: what it stands for could be another thing for each
 * caller.
 */
function contextPathWithoutValue(paths: readonly Path[], context: object): Path | undefined {
  try {
    return paths.find((path) => readPath(path, { context }).length === 0);
  } catch {
    // A getter of the context has thrown, as it will again.
    return undefined;
  }
}

/**
 * Returns the digest of everything in a schema that decides about responses. Releases that differ
 * in it share none.
 */
export function shapeOf(schema: GraphQLSchema, { rules }: CacheParts): string {
  // Printing the schema leaves them out.
  const annotated = Object.values(schema.getTypeMap()).flatMap((type) => [
    [type.name, directivesOn(type).map(print)],
    ...("getFields" in type ? Object.values(type.getFields()) : []).map((field) => [
      `${type.name}.${field.name}`,
      directivesOn(field).map(print),
    ]),
  ]);
  const policies = [...rules.fields.values()].map(({ coordinate, variant, policy, settings }) => [
    coordinate,
    variant.id,
    policy,
    settings,
  ]);
  return hashOf("sha256", JSON.stringify([printSchema(schema), annotated, policies]), "base64url");
}

/**
 * Returns the query fields without entries whose responses are kept: only what their resolvers read
 * through the cache invalidates such a response.
 */
function fieldsWithoutEntries(schema: GraphQLSchema, { fields }: Pick<SchemaRules, "fields">): readonly string[] {
  const root = schema.getQueryType();
  if (root == null) return [];
  return (
    (Object.values(root.getFields()) as AnyField[])
      .filter((field) => (hintOf(field).maxAge ?? 0) > 0)
      // With entity tags, the entities that it returns are parts of the response.
      .filter(({ resolve }) => resolve === undefined || wrappedBy(resolve) === undefined)
      .map(({ name }) => `${root.name}.${name}`)
      .filter((coordinate) => !fields.has(coordinate))
  );
}

/** Logs once which responses nothing but their age may make outdated. */
export function reportStart(schema: GraphQLSchema, { rules, onceLog }: CacheParts): void {
  const fields = fieldsWithoutEntries(schema, rules);
  if (fields.length === 0) return;
  onceLog.info(
    `graphql-cached: responses with ${listOf(fields)} are kept for their maxAge, whatever changes, unless their resolvers read cached fields or loaders; add @cached with tags to what mutations change`,
  );
}
