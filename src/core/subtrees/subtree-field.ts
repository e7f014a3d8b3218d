import { type FieldNode, type GraphQLError, type GraphQLResolveInfo, isNonNullType } from "graphql";
import type { LRUCache } from "lru-cache";
import { CachedError } from "../base/errors.js";
import { infoWith } from "../base/graphql-version.js";
import { tagsOfValue } from "../directive/entities/entity-walk.js";
import { detachedCacheControl } from "../directive/hints/response-hint.js";
import { isEmptyRoot } from "../directive/look-ahead/query-reads.js";
import { type Args, CachedField } from "../directive/run/cached-field.js";
import { resultControl } from "../directive/run/result-control.js";
import type { CacheParts } from "../parts.js";
import type { FieldRule } from "../schema-rules.js";
import type { SkipReason } from "../telemetry/events.js";
import type { ReadReport } from "../tier/request/request.js";
import { LoadControl } from "../tier/request/result-control.js";
import { SubtreeBuild } from "./build.js";
import { HitRatio } from "./hit-ratio.js";
import { filled, HiddenName, OtherObjects, storedOf } from "./holes.js";
import { isHiddenKey } from "./nested-document.js";
import {
  type Completed,
  type ListedObject,
  NestedExecutions,
  type NestedSource,
  PLACE,
  placeOf,
} from "./nested-execution.js";
import type { Fragments, SelectionPlan } from "./selection-plan.js";
import { subtreeRule } from "./subtree-rule.js";

/**
 * A field of the query type in one document, whose completed selection is an entry. Its twin is read like a cached field, with a key that
 * contains the selection; its load is a nested execution of the field alone.
 */
export class SubtreeField {
  readonly source: SubtreeSource;
  readonly plan: SelectionPlan;
  /** That of all documents with this selection. */
  hitRatio = new HitRatio();
  readonly nodes: readonly FieldNode[];
  /** Documents that select the same have the same. */
  readonly selectionDigest: string;
  readonly #nested: NestedExecutions;
  readonly #cached: CachedField;
  readonly #hasIds: boolean;
  /** Whether the server has a root value, from which fields can be resolved. */
  hasRootValue = false;

  constructor(
    source: SubtreeSource,
    nodes: readonly FieldNode[],
    plan: SelectionPlan,
    fragments: Fragments,
    selectionDigest: string,
  ) {
    this.source = source;
    this.selectionDigest = selectionDigest;
    this.nodes = nodes;
    this.plan = plan;
    const { rule, types, parts } = source;
    const tagsEntities = Object.keys(types.schema.getTypeMap()).some((name) => rule.subtree?.tagsEntity(name) === true);
    this.#hasIds = plan.hasHoles || rule.entities !== undefined || tagsEntities;
    this.#nested = new NestedExecutions(source, nodes, plan, fragments, this.#hasIds);
    const own = subtreeRule(rule, plan, parts, fragments);
    this.#cached = new CachedField(own, (_source, _args, context, info) => this.#load(context, info), parts, {
      existence: undefined,
      onRead: (report, info) => {
        callOf(info).report = report;
      },
      onMiss: (entry, info) => {
        if (entry !== undefined) callOf(info).hadEntry = true;
      },
    });
  }

  resolve(source: unknown, args: Args, context: unknown, info: GraphQLResolveInfo): unknown {
    const run: ObjectRun = this.source.runOf(info);
    const read = this.#read(source, args, context, info, run);
    if (read instanceof Promise) run.pending.push(read);
    return read;
  }

  /** Reads an object of a list. `place`: the `info` of the twin of the list, with the path of the object and the type of its value. */
  resolveObject(listed: ListedObject, context: unknown, place: GraphQLResolveInfo, run: ObjectRun): unknown {
    const { key, prev } = place.path;
    const path = [...pathOf(prev), key];
    const info = infoWith(place, { [PLACE]: { ...listed, path } });
    const { types, rule } = this.source;
    if (isIdentified(listed.object, types.idFieldsOf({ name: rule.coordinate })))
      return this.#read(info.rootValue, NO_ARGS, context, info, run);
    return this.#answerAlone(context, info, run, info.rootValue);
  }

  #read(rootValue: unknown, args: Args, context: unknown, info: GraphQLResolveInfo, run: ObjectRun): unknown {
    if (!isEmptyRoot(rootValue)) {
      this.hasRootValue = true;
      return this.#answerAlone(context, info, run, rootValue);
    }
    const call: SubtreeCall = {};
    const own = infoWith(info, { [CALL]: call, cacheControl: detachedCacheControl() });
    const skip = this.#skipOf(args, context, info);
    if (skip !== undefined) {
      this.source.skipped(skip.reason, skip.subject);
      return this.#answerAlone(context, info, run);
    }
    const value = this.#cached.resolve(sourceOf(info), args, context, own);
    if (!(value instanceof Promise) && value !== NOT_STORED && !this.plan.hasHoles) {
      this.hitRatio.add("hit", placeOf(info)?.share);
      return value;
    }
    return this.#answer(value, call, args, context, own, run);
  }

  async #answer(
    read: unknown,
    call: SubtreeCall,
    args: Args,
    context: unknown,
    info: GraphQLResolveInfo,
    run: ObjectRun,
  ): Promise<unknown> {
    const completed = await this.#completed(read, call, context, info);
    const outcome = call.built === undefined ? "hit" : call.hadEntry ? "rebuilt" : "new";
    this.#noteRefusal(call, args, context, info);
    if (completed.isOrdinary || !this.plan.hasHoles) {
      this.hitRatio.add(outcome, placeOf(info)?.share);
      return this.#settle(completed, run, info);
    }
    // Not while a build is running, which what loaders read for holes could be a part of: PRIVATE values would keep it from being stored.
    const holes = await this.#nested.execute("holes", context, info);
    const filling = this.#fill(completed, holes, info);
    // What has to be built again was no hit.
    this.hitRatio.add(outcome === "hit" && filling === undefined ? "rebuilt" : outcome);
    if (filling !== undefined) return this.#settle(filling, run, info);
    // The entry is about other objects than there are now, so it is built again.
    const again: SubtreeCall = {};
    const rebuilt = this.#cached.resolve(sourceOf(info), args, context, infoWith(info, { [CALL]: again }), true);
    const newer = await this.#completed(rebuilt, again, context, info);
    const refilling = newer.isOrdinary ? newer : this.#fill(newer, holes, info);
    return this.#settle(refilling ?? (await this.#nested.execute("ordinary", context, info)), run, info);
  }

  /** Returns what a read has come to: the value of an entry or of a build, or that of an ordinary execution if there is neither. */
  async #completed(
    read: unknown,
    call: SubtreeCall,
    context: unknown,
    info: GraphQLResolveInfo,
  ): Promise<Completed & { readonly isOrdinary: boolean }> {
    let value: unknown;
    try {
      value = await read;
    } catch (error) {
      if (call.built === undefined && isOfReader(error)) throw error;
      value = NOT_STORED;
    }
    // Another one can have been served in the place of one with errors.
    if (
      value !== NOT_STORED &&
      (call.built === undefined || call.built.errors.length === 0 || call.report?.outcome === "staleIfError")
    )
      return { value, errors: [], isOrdinary: false };
    if (call.built !== undefined && !call.built.errors.some(isHidden)) return { ...call.built, isOrdinary: false };
    return { ...(await this.#nested.execute("ordinary", context, info)), isOrdinary: true };
  }

  /** Returns a completed value with what was executed for this request in its holes. Undefined if they are of other objects. */
  #fill({ value, errors }: Completed, holes: Completed, { path }: GraphQLResolveInfo): Completed | undefined {
    if (holes.errors.some(isHidden)) return undefined;
    try {
      const whole = filled(value, holes.value, [...errors, ...holes.errors], [path.key]);
      return { value: whole, errors: [...errors, ...holes.errors.filter((error) => !isAmong(error, errors))] };
    } catch (error) {
      if (error instanceof OtherObjects) return undefined;
      throw error;
    }
  }

  /** Answers with a completed value. Its errors are added to those of the request, except for one that makes the field itself fail. */
  #settle({ value, errors }: Completed, run: ObjectRun, info: GraphQLResolveInfo): unknown {
    const [first, ...others] = errors;
    const isStrict = placeOf(info)?.isStrict ?? isNonNullType(this.source.field.type);
    if (first !== undefined && value === null && isStrict) {
      run.errors.push(...others);
      throw first;
    }
    run.errors.push(...errors);
    return value;
  }

  /** Returns why a value is not looked up. Undefined: it is. */
  #skipOf(args: Args, context: unknown, info: GraphQLResolveInfo): Skip | undefined {
    const { unstorable } = this.source;
    if (unstorable.size === 0) return undefined;
    const digest = this.#digestOf(args, context, info);
    const skip = digest === undefined ? undefined : unstorable.get(digest);
    return skip !== undefined && skip.until > this.source.parts.clock.now() ? skip : undefined;
  }

  /** A value that could not be stored is not looked up for a while: a build costs more than an execution. */
  #noteRefusal(call: SubtreeCall, args: Args, context: unknown, info: GraphQLResolveInfo): void {
    const { report, built } = call;
    if (built === undefined && !call.isUnstorable) return;
    const { parts, rule, skipped } = this.source;
    const refusal = report !== undefined && report.outcome !== "bypassed" ? report.refusal : undefined;
    let { skip } = call;
    if (refusal !== undefined) {
      skip = { reason: REFUSALS[refusal] ?? "UNSTORABLE", subject: rule.coordinate };
      skipped(skip.reason, skip.subject);
    }
    if (refusal === undefined && (built?.errors ?? []).length === 0 && !call.isUnstorable) return;
    const { clock, errorBackoffMs } = parts;
    const digest = this.#digestOf(args, context, info);
    skip ??= { reason: "UNSTORABLE", subject: rule.coordinate };
    if (digest !== undefined) this.source.unstorable.set(digest, { ...skip, until: clock.now() + errorBackoffMs });
  }

  #digestOf(args: Args, context: unknown, info: GraphQLResolveInfo): string | undefined {
    return this.#cached.keyOf(sourceOf(info), args, context, info)?.digest;
  }

  async #answerAlone(
    context: unknown,
    info: GraphQLResolveInfo,
    run: ObjectRun,
    rootValue?: unknown,
  ): Promise<unknown> {
    return this.#settle(await this.#nested.execute("ordinary", context, info, { rootValue }), run, info);
  }

  async #load(context: unknown, info: GraphQLResolveInfo): Promise<unknown> {
    const { parts, rule } = this.source;
    const { policy } = this.#cached.rule;
    const control = resultControl(info);
    const call = callOf(info);
    const skipped: SubtreeSource["skipped"] = (reason, subject) => {
      call.skip ??= { reason, subject };
      this.source.skipped(reason, subject);
    };
    const build = new SubtreeBuild(parts, this.#cached.rule, context, info, skipped);
    const completed = await build.run((own) => this.#nested.execute("stored", own, info, { build }));
    const ids = this.#hasIds ? new Map<string, Set<string>>() : undefined;
    let value: unknown;
    try {
      value = storedOf(completed.value, this.plan.hasHoles, ids);
    } catch (error) {
      if (!(error instanceof HiddenName && control instanceof LoadControl)) throw error;
      skipped("UNSTORABLE", rule.coordinate);
      call.isUnstorable = true;
      control.skip();
      return NOT_STORED;
    }
    call.built = { value, errors: completed.errors };
    const [error] = completed.errors;
    if (error !== undefined) {
      skipped("ERRORS", rule.coordinate);
      // The tier decides whether an older value is served in its place.
      if (policy.staleIfErrorMs > 0 || !(control instanceof LoadControl)) throw error.originalError ?? error;
    }
    // The mode is `observe`, or the cache is bypassed: nothing is stored.
    if (!(control instanceof LoadControl)) return value;
    const entities = [...(ids ?? [])].filter(([typeName]) => rule.subtree?.tagsEntity(typeName) === true);
    const isStored = error === undefined && build.describe(control, value, tagsOfValue(new Map(entities)));
    if (isStored) return value;
    call.isUnstorable = true;
    control.skip();
    return NOT_STORED;
  }
}

export function pathOf(path: GraphQLResolveInfo["path"] | undefined): (string | number)[] {
  const keys: (string | number)[] = [];
  for (let at = path; at !== undefined; at = at.prev) keys.push(at.key);
  return keys.reverse();
}

/** What the subtrees of one object have come to besides its data. */
export interface ObjectRun {
  readonly errors: GraphQLError[];
  readonly pending: Promise<unknown>[];
}

/** What an execution of a rewritten document has come to: the run of the query, with those of other objects. */
export interface SubtreeRun extends ObjectRun {
  /** By path, as JSON. */
  readonly below: Map<string, ObjectRun>;
  /** The paths of the objects that have the field for errors in their data. */
  readonly places: (readonly (string | number)[])[];
}

interface Skip {
  readonly reason: SkipReason;
  readonly subject: string;
}

/** Until when a value is not looked up, since it could not be stored. */
export interface Unstorable extends Skip {
  readonly until: number;
}

interface SubtreeCall {
  built?: Completed;
  report?: ReadReport;
  /** Whether there was an entry, which could not be served. */
  hadEntry?: boolean;
  /** Whether the build has found that the value must not be stored. */
  isUnstorable?: boolean;
  /** The first reason why not. */
  skip?: Skip;
}

/** Takes the place of a value that is not stored: those who have waited for it execute the field themselves. No completed object is a string. */
const NOT_STORED = "not stored";

/** Leads from the `info` of a twin, and of its load, to the call. */
const CALL: unique symbol = Symbol("graphql-cached.subtree-call");

const NO_ARGS: Args = {};

/** The hidden ids of a type without errors in them. */
const isHidden = ({ path }: GraphQLError): boolean =>
  path?.some((step) => typeof step === "string" && isHiddenKey(step)) === true;

export interface SubtreeSource extends NestedSource {
  readonly parts: CacheParts;
  readonly rule: FieldRule;
  runOf(info: GraphQLResolveInfo): SubtreeRun;
  /** The selections of the field that are kept, by digest. */
  readonly selections: Map<string, { readonly hitRatio: HitRatio; usedAt: number }>;
  /** What is not looked up for a while, by digest of the key. */
  readonly unstorable: LRUCache<string, Unstorable>;
  /** Reports why a subtree is not stored. `subject`: a coordinate or a name. */
  skipped(reason: SkipReason, subject: string): void;
}

/** Whether an object can be an entry: it has what identifies it, as the default resolver reads it. */
const isIdentified = (object: unknown, idFields: readonly string[]): boolean => {
  if (typeof object !== "object" || object === null) return false;
  return idFields.every((name) => ["string", "number"].includes(typeof (object as Record<string, unknown>)[name]));
};

/** What keys and tags are made from, besides arguments and context. */
const sourceOf = (info: object): unknown => placeOf(info)?.object;

/** A load that nobody has called the twin for, as a sample, has a call of its own. */
const callOf = (info: object): SubtreeCall => (info as { readonly [CALL]?: SubtreeCall })[CALL] ?? {};

const REFUSALS: Readonly<Partial<Record<string, SkipReason>>> = {
  "too-large": "TOO_LARGE",
  unkeyable: "PRIVATE",
};

/** Whether an error says that this reader does not wait any longer, rather than what became of the value. */
const isOfReader = (error: unknown): boolean =>
  error instanceof CachedError ? error.code === "CACHED_LOAD_TIMEOUT" : (error as Error | null)?.name === "AbortError";

/** Whether the same place has failed in both executions. */
const isAmong = ({ path }: GraphQLError, errors: readonly GraphQLError[]): boolean =>
  errors.some((error) => error.path?.join(".") === path?.join("."));
