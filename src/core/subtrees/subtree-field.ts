import {
  type DocumentNode,
  type ExecutionResult,
  execute,
  type FieldNode,
  type GraphQLCompositeType,
  GraphQLError,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getNamedType,
  isNonNullType,
  type OperationDefinitionNode,
} from "graphql";
import type { LRUCache } from "lru-cache";
import { CachedError } from "../base/errors.js";
import { abortSignalOf, coercedVariables, infoWith, partOfExecution } from "../base/graphql-version.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { tagsOfValue } from "../directive/entities/entity-walk.js";
import { detachedCacheControl } from "../directive/hints/response-hint.js";
import { isEmptyRoot } from "../directive/look-ahead/query-reads.js";
import { type Args, CachedField } from "../directive/run/cached-field.js";
import { resultControl } from "../directive/run/result-control.js";
import { type Build, operationOf } from "../loader/request-scope.js";
import type { CacheParts } from "../parts.js";
import type { FieldRule } from "../schema-rules.js";
import type { SkipReason } from "../telemetry/events.js";
import type { ReadReport } from "../tier/request/request.js";
import { LoadControl } from "../tier/request/result-control.js";
import { SubtreeBuild } from "./build.js";
import { HitRatio } from "./hit-ratio.js";
import { filled, HiddenName, NulledPaths, OtherObjects, storedOf } from "./holes.js";
import { holesDocument, isHiddenKey, NestedDocument, responseKeyOf, storedDocument } from "./nested-document.js";
import type { Fragments, SelectedTypes, SelectionPlan } from "./selection-plan.js";
import { subtreeRule } from "./subtree-rule.js";
import { originalsOf, resolvedBy } from "./twins.js";

/** Returns the keys on the way to a place. */
export function pathOf(path: GraphQLResolveInfo["path"] | undefined): (string | number)[] {
  const keys: (string | number)[] = [];
  for (let at = path; at !== undefined; at = at.prev) keys.push(at.key);
  return keys.reverse();
}

/** What the subtrees of one object have come to besides its data. */
export interface ObjectRun {
  /** The errors of its subtrees. */
  readonly errors: GraphQLError[];
  /** Its subtrees. */
  readonly pending: Promise<unknown>[];
}

/** What an execution of a rewritten document has come to: the run of the query, with those of other objects. */
export interface SubtreeRun extends ObjectRun {
  /** By path, as JSON. */
  readonly below: Map<string, ObjectRun>;
  /** The paths of the objects that have the field for errors in their data. */
  readonly places: (readonly (string | number)[])[];
}

/** An object of a list. */
export interface ListedObject {
  readonly object: unknown;
  /** Whether it must not be null. */
  readonly isStrict: boolean;
  /** What part of the list it is. */
  readonly share: number;
}

/** What an object of a list is read for. */
interface Place extends ListedObject {
  /** The path of the object in the response. */
  readonly path: readonly (string | number)[];
}

/** What a nested execution has completed a field to. */
interface Completed {
  readonly value: unknown;
  readonly errors: readonly GraphQLError[];
}

/** One read of a subtree. */
interface SubtreeCall {
  /** What the build of this read has completed, if there was one. */
  built: Completed | undefined;
  report: ReadReport | undefined;
  /** Whether there was an entry, which could not be served. */
  hadEntry: boolean;
  /** Whether the build has found that the value must not be stored. */
  isUnstorable: boolean;
  /** The first reason why not. */
  skip: Skip | undefined;
}

/** Why a subtree is not read or not stored. */
interface Skip {
  readonly reason: SkipReason;
  readonly subject: string;
}

/** Until when a value is not looked up, since it could not be stored. */
export interface Unstorable extends Skip {
  readonly until: number;
}

const newCall = (): SubtreeCall => ({
  built: undefined,
  report: undefined,
  hadEntry: false,
  isUnstorable: false,
  skip: undefined,
});

/** Takes the place of a value that is not stored: those who have waited for it execute the field themselves. No completed object is a string. */
const NOT_STORED = "not stored";
/** The documents that are kept for the conditions of the nodes of one field. Clients can send any values. */
const MAX_DOCUMENTS = 16;

/** Leads from the `info` of a twin, and of its load, to the call. */
const CALL: unique symbol = Symbol("graphql-cached.subtree-call");
/** Leads from the `info` of a read to the object that it is about. */
const PLACE: unique symbol = Symbol("graphql-cached.subtree-place");

const NO_ARGS: Args = {};

/** The hidden ids of a type without errors in them. */
const isHidden = ({ path }: GraphQLError): boolean =>
  path?.some((step) => typeof step === "string" && isHiddenKey(step)) === true;

/** What `SubtreeField` needs to know about its field. */
export interface SubtreeSource {
  readonly parts: CacheParts;
  readonly rule: FieldRule;
  readonly field: AnyField;
  readonly types: SelectedTypes;
  readonly buildSchema: GraphQLSchema;
  /** Returns the node of the query type of `buildSchema` in the place of one that the client has written. */
  nestedNode(node: FieldNode): FieldNode;
  /** Returns the run that a call belongs to. */
  runOf(info: GraphQLResolveInfo): SubtreeRun;
  /** The selections of the field that are kept, by digest. */
  readonly selections: Map<string, { readonly hitRatio: HitRatio; usedAt: number }>;
  /** What is not looked up for a while, by digest of the key. */
  readonly unstorable: LRUCache<string, Unstorable>;
  /** Reports why a subtree is not stored. `subject`: a coordinate or a name. */
  skipped(reason: SkipReason, subject: string): void;
}

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
  readonly #fragments: Fragments;
  readonly #named: GraphQLCompositeType;
  readonly #cached: CachedField;
  /** Whether stored values contain the ids of their objects. */
  readonly #keepsIds: boolean;
  readonly #hasIds: boolean;
  /** By the nodes that an execution has collected: `@include` can leave some of them out. */
  readonly #documents = new Map<string, NestedDocuments>();
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
    this.#fragments = fragments;
    this.#named = getNamedType(source.field.type) as GraphQLCompositeType;
    this.#keepsIds = plan.hasHoles;
    const { rule } = source;
    this.#hasIds = plan.hasHoles || rule.entities !== undefined || this.#tagsEntities();
    const own = subtreeRule(rule, plan, source.parts, fragments);
    this.#cached = new CachedField(own, (_source, _args, context, info) => this.#load(context, info), source.parts, {
      existence: undefined,
      compare: undefined,
      onRead: (report, info) => {
        const call = callOf(info);
        if (call !== undefined) call.report = report;
      },
      onMiss: (entry, info) => {
        const call = callOf(info);
        if (call !== undefined && entry !== undefined) call.hadEntry = true;
      },
    });
  }

  #tagsEntities(): boolean {
    const { rule, types } = this.source;
    return Object.keys(types.schema.getTypeMap()).some((name) => rule.subtree?.tagsEntity(name) === true);
  }

  /** The resolver of the twin. */
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
    const info = infoWith(place, { [PLACE]: { ...listed, path } satisfies Place });
    const { types, rule } = this.source;
    if (isIdentified(listed.object, types.idFieldsOf({ name: rule.coordinate })))
      return this.#read(info.rootValue, NO_ARGS, context, info, run);
    return this.#executeAlone(context, info, info.rootValue).then((completed) => this.#settle(completed, run, info));
  }

  #read(rootValue: unknown, args: Args, context: unknown, info: GraphQLResolveInfo, run: ObjectRun): unknown {
    if (!isEmptyRoot(rootValue)) {
      this.hasRootValue = true;
      return this.#executeAlone(context, info, rootValue).then((completed) => this.#settle(completed, run, info));
    }
    const call = newCall();
    const own = infoWith(info, { [CALL]: call, cacheControl: detachedCacheControl() });
    const skip = this.#skipOf(args, context, info);
    if (skip !== undefined) {
      this.source.skipped(skip.reason, skip.subject);
      return this.#executeAlone(context, info).then((completed) => this.#settle(completed, run, info));
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
    const holes = await this.#execute("holes", undefined, context, info);
    const filling = await this.#fill(completed, holes, info);
    // What has to be built again was no hit.
    this.hitRatio.add(outcome === "hit" && filling === undefined ? "rebuilt" : outcome);
    if (filling !== undefined) return this.#settle(filling, run, info);
    // The entry is about other objects than there are now, so it is built again.
    const again = newCall();
    const rebuilt = this.#cached.resolve(sourceOf(info), args, context, infoWith(info, { [CALL]: again }), true);
    const newer = await this.#completed(rebuilt, again, context, info);
    const refilling = newer.isOrdinary ? newer : await this.#fill(newer, holes, info);
    return this.#settle(refilling ?? (await this.#executeAlone(context, info)), run, info);
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
    return { ...(await this.#executeAlone(context, info)), isOrdinary: true };
  }

  /** Returns a completed value with what was executed for this request in its holes. Undefined if they are of other objects. */
  async #fill(
    { value, errors }: Completed,
    holes: Completed,
    { path }: GraphQLResolveInfo,
  ): Promise<Completed | undefined> {
    if (holes.errors.some(isHidden)) return undefined;
    try {
      const whole = filled(value, holes.value, new NulledPaths([...errors, ...holes.errors]), [path.key]);
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

  /** Executes the field as without its subtree, for this request alone. */
  #executeAlone(context: unknown, info: GraphQLResolveInfo, rootValue?: unknown): Promise<Completed> {
    return this.#execute("ordinary", undefined, context, info, rootValue);
  }

  /** The load of an entry. */
  async #load(context: unknown, info: GraphQLResolveInfo): Promise<unknown> {
    const { parts, rule } = this.source;
    const { policy } = this.#cached.rule;
    const control = resultControl(info);
    const call = callOf(info);
    const skipped: SubtreeSource["skipped"] = (reason, subject) => {
      if (call !== undefined) call.skip ??= { reason, subject };
      this.source.skipped(reason, subject);
    };
    const build = new SubtreeBuild(parts, this.#cached.rule, context, info, skipped);
    const completed = await build.run((own) => this.#execute("stored", build, own, info));
    const ids = this.#hasIds ? new Map<string, Set<string>>() : undefined;
    let value: unknown;
    try {
      value = storedOf(completed.value, this.#keepsIds, ids);
    } catch (error) {
      if (!(error instanceof HiddenName && control instanceof LoadControl)) throw error;
      skipped("UNSTORABLE", rule.coordinate);
      if (call !== undefined) call.isUnstorable = true;
      control.skip();
      return NOT_STORED;
    }
    if (call !== undefined) call.built = { value, errors: completed.errors };
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
    if (call !== undefined) call.isUnstorable = true;
    control.skip();
    return NOT_STORED;
  }

  /** Executes a document of the field for a call of its twin. */
  async #execute(
    what: keyof NestedDocuments,
    build: Build | undefined,
    context: unknown,
    info: GraphQLResolveInfo,
    rootValue?: unknown,
  ): Promise<Completed> {
    const nodes = originalsOf(info);
    const document = this.#documentsOf(nodes)[what];
    const values = coercedVariables(info.variableValues);
    const variableValues = Object.fromEntries(
      document.variables.filter((name) => Object.hasOwn(values, name)).map((name) => [name, values[name]]),
    );
    const place = placeOf(info);
    const own = (operation: OperationDefinitionNode): OperationDefinitionNode => {
      const ofObject = place === undefined ? operation : operationOfObject(operation, place.object);
      return build === undefined ? partOfExecution(ofObject, info) : operationOf(build, ofObject);
    };
    const signal = abortSignalOf(info);
    const args = {
      schema: this.source.buildSchema,
      document: document.with(own) as DocumentNode,
      rootValue,
      contextValue: context,
      variableValues,
      ...(signal === undefined ? {} : { abortSignal: signal as AbortSignal }),
    };
    const { data, errors = [] } = (await execute(args)) as ExecutionResult;
    const [node] = nodes;
    const value = data == null ? null : (data[responseKeyOf(node as FieldNode)] ?? null);
    return { value, errors: place === undefined ? errors : errors.map((error) => errorAt(error, place.path)) };
  }

  #documentsOf(originals: readonly FieldNode[]): NestedDocuments {
    const id = originals.map((node) => this.nodes.indexOf(node)).join();
    let documents = this.#documents.get(id);
    if (documents === undefined) {
      const nodes = originals.map((node) => this.source.nestedNode(node));
      const { types } = this.source;
      documents = {
        ordinary: new NestedDocument(nodes, this.#fragments),
        stored: this.#hasIds
          ? storedDocument(nodes, this.#named, types, this.#fragments)
          : new NestedDocument(nodes, this.#fragments),
        holes: this.plan.hasHoles
          ? holesDocument(nodes, this.#named, types, this.#fragments)
          : new NestedDocument([], this.#fragments),
      };
      if (this.#documents.size >= MAX_DOCUMENTS) this.#documents.clear();
      this.#documents.set(id, documents);
    }
    return documents;
  }
}

/** The documents that are executed for a field. */
interface NestedDocuments {
  readonly ordinary: NestedDocument;
  readonly stored: NestedDocument;
  readonly holes: NestedDocument;
}

/** Whether an object can be an entry: it has what identifies it, as the default resolver reads it. */
const isIdentified = (object: unknown, idFields: readonly string[]): boolean => {
  if (typeof object !== "object" || object === null) return false;
  return idFields.every((name) => ["string", "number"].includes(typeof (object as Record<string, unknown>)[name]));
};

const placeOf = (info: object): Place | undefined => (info as { readonly [PLACE]?: Place })[PLACE];

/** What keys and tags are made from, besides arguments and context. */
const sourceOf = (info: object): unknown => placeOf(info)?.object;

/** Returns the operation whose only field returns an object. */
function operationOfObject(operation: OperationDefinitionNode, object: unknown): OperationDefinitionNode {
  const [first, ...others] = operation.selectionSet.selections;
  const selections = [resolvedBy(first as FieldNode, () => object), ...others];
  return { ...operation, selectionSet: { ...operation.selectionSet, selections } };
}

/** Returns an error of the execution of an object as one of the response. */
function errorAt(error: GraphQLError, path: readonly (string | number)[]): GraphQLError {
  const { message, nodes, source, positions, originalError, extensions } = error;
  const ownPath = error.path === undefined ? path : [...path, ...error.path.slice(1)];
  return new GraphQLError(message, {
    nodes: nodes ?? null,
    source,
    positions,
    path: ownPath,
    originalError,
    extensions,
  });
}

const callOf = (info: object): SubtreeCall | undefined => (info as { readonly [CALL]?: SubtreeCall })[CALL];

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
