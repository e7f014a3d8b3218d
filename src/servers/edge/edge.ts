import { nameOfSubject, RESPONSES, type Subject } from "../../core/keys/key.js";
import { namesOf } from "../../core/loader/collected-reads.js";
import { identityMistake, identityOf } from "../../core/loader/identity.js";
import type { Observer } from "../../core/loader/request-states.js";
import type { CacheParts } from "../../core/parts.js";
import { CollectedParts, contextReadLine } from "../../core/responses/collected-parts.js";
import type { OperationPlan, OperationPlanner } from "../../core/responses/operation-plan.js";
import type {
  Begun,
  ExecutedResponse,
  Operation,
  ResponseAge,
  ResponseExecution,
} from "../../core/responses/response-execution.js";
import { dataTextOf, isUnchanged, type ResponseText } from "../../core/responses/stored-response.js";
import type { Moment } from "../../core/tier/shared/known-positions.js";
import { isForEdge } from "./final-headers.js";
import type { ResolvedEdge } from "./options.js";

/** Makes the headers by which CDNs keep responses, and find outdated ones. */
export class Edge {
  /** Of the properties of all contexts. */
  readonly #names = new Set<string>();

  constructor(
    readonly parts: CacheParts,
    readonly planner: OperationPlanner,
    readonly options: ResolvedEdge,
  ) {}

  checkPurge(caller: string): void {
    const { channel, onceLog } = this.parts;
    if (!channel.isHeard("invalidation.finished"))
      onceLog.warn(
        `graphql-cached: ${caller}: \`edge\`: expected a listener of the event invalidation.finished, got none, so that a CDN keeps what is invalidated until its s-maxage is over; pass \`onEvent\` to createCache, and let it purge the \`tags\` of the event`,
      );
  }

  /** Undefined for a request that no CDN answers. Never rejects. */
  async begin(context: unknown, request: EdgeRequest | undefined): Promise<EdgeResponse | undefined> {
    const { invalidations, requestStates } = this.parts;
    // What it reads is a part of no other response.
    requestStates.own(context);
    if (request === undefined || !isForEdge(request)) return undefined;
    const isOfCaller =
      mayBeSignedIn(this.parts, context) || request.header("authorization") != null || request.isTraced;
    // What is read was invalidated later, if at all, than what this process knows now.
    const isKnown = !isOfCaller && (await invalidations.follow());
    const { origin, restarts } = invalidations;
    return new EdgeResponse(this, isKnown && origin ? { ...origin, restarts } : undefined, context);
  }

  /** Returns a response that nobody may keep. */
  unexecuted(): EdgeResponse {
    return new EdgeResponse(this, undefined, undefined);
  }

  /** Returns the properties of other contexts that one lacks: nobody sees these read. */
  missingIn(context: object): readonly string[] {
    const names = namesOf(context);
    const isKnown = (name: string): boolean =>
      names.includes(name) || name in context || this.options.contextPaths.has(`$context.${name}`);
    const missing = [...this.#names].filter((name) => !isKnown(name));
    for (const name of names) if (this.#names.size < MAX_NAMES) this.#names.add(name);
    return this.parts.contextWatch.notShared(missing);
  }
}

const MAX_NAMES = 1_000;

export interface EdgeRequest {
  readonly method: string;
  header(name: string): string | null | undefined;
  /** Whether it asks how its response was made, which `allow` lets only some callers know. */
  readonly isTraced: boolean;
}

interface Contents {
  /** Undefined: they are too many. */
  readonly subjects: readonly Subject[] | undefined;
  readonly freshForMs: number;
  readonly staleForMs: number;
  readonly isPrivate: boolean;
  /** Whether all of it is known. */
  readonly isComplete: boolean;
  readonly contextPaths: readonly string[];
}

/** Whether a caller has an identity, or an unknown one since `identify` is wrong (logged once). */
function mayBeSignedIn({ identify, onceLog }: CacheParts, context: unknown): boolean {
  if (identityOf(identify, context) !== undefined) return true;
  const mistake = identityMistake(identify, context, RESPONSES);
  if (mistake === undefined) return false;
  onceLog.warn(
    `graphql-cached: \`edge\`: responses are private, since it is not known whose they are: ${mistake.message}`,
  );
  return true;
}

export class EdgeResponse {
  #plan: OperationPlan | undefined;
  /** The properties of other contexts that its own lacks. */
  #missing: readonly string[] = [];
  #contents: (() => Contents) | undefined;
  #isServed = false;
  /** What was executed or stored. */
  #text: ResponseText | undefined;

  /** `origin`: what was invalidated when it began. Undefined: nobody may keep it. */
  constructor(
    private readonly edge: Edge,
    private readonly origin: Moment | undefined,
    private readonly context: unknown,
  ) {}

  served({ response, report, contextPaths, isPrivate, plan }: Extract<Begun, { kind: "served" }>): void {
    this.#note(plan);
    this.#text = response;
    this.#isServed = true;
    const { subjects, freshForMs, staleForMs } = report;
    const { clock } = this.edge.parts;
    const freshUntilAt = clock.now() + freshForMs;
    const others = { subjects, staleForMs, isPrivate, contextPaths, isComplete: true };
    this.#contents = () => ({ ...others, freshForMs: freshUntilAt - clock.now() });
  }

  /**
   * Notes that it is executed. `execution`: that of the response cache. `serverKeys`: context
   * properties that the server reads itself. Returns what ends it.
   */
  execute(
    operation: Omit<Operation, "variables">,
    observer: Observer | undefined,
    execution?: ResponseExecution,
    serverKeys: readonly string[] = [],
  ): () => void {
    if (this.origin === undefined) return () => undefined;
    const { parts: all, options } = this.edge;
    const { contextWatch, identify } = all;
    const plan = this.edge.planner.plan(operation);
    this.#note(plan, serverKeys);
    const contextPaths = execution?.contextPaths ?? plan?.contextPaths.map(({ text }) => text) ?? [];
    const parts = execution?.parts ?? new CollectedParts(all, [...contextPaths, ...options.contextPaths]);
    // Otherwise another cache may have answered.
    const hasReads = (): boolean => parts.hasReads || plan?.coordinates.length === 0;
    this.#contents = () => ({
      subjects: parts.subjects(),
      freshForMs: parts.freshUntilAt - all.clock.now(),
      staleForMs: parts.staleForMs,
      isPrivate: parts.isPrivate,
      isComplete: hasReads() && parts.isComplete,
      contextPaths,
    });
    // The response cache has its own scope.
    if (execution?.parts !== undefined) return () => undefined;
    const stop = all.requestStates.collect(operation.context, parts.observing(observer));
    if (plan?.isPublic === true) return stop;
    const contextReads = contextWatch.collect(operation.context, [...contextPaths, ...options.contextPaths]);
    // What identifies callers says of all whose responses CDNs keep that they are not signed in.
    identityOf(identify, operation.context);
    return () => {
      stop();
      const { context } = operation;
      const isRead = (name: string) => !serverKeys.includes(name) && !contextWatch.isNoIdentity(context, name);
      parts.addContextReads(contextReads().filter(isRead), REMEDY);
    };
  }

  #note(plan: OperationPlan | undefined, serverKeys: readonly string[] = []): void {
    this.#plan = plan;
    if (plan?.isPublic !== true && this.origin !== undefined)
      this.#missing = this.edge.missingIn(this.context as object).filter((name) => !serverKeys.includes(name));
  }

  /** Its extensions, if it has any, may be of one caller, unless they are stored. */
  executed({ data, errors }: ExecutedResponse): void {
    const dataText = (errors ?? []).length > 0 ? undefined : dataTextOf(data);
    this.#text = dataText === undefined ? undefined : { dataText, extensionsText: "" };
  }

  /** Whether it is no longer what was executed or stored. */
  isChanged(sent: ExecutedResponse): boolean {
    return this.#text === undefined || !isUnchanged(sent, this.#text);
  }

  /** By the schema, policies and reads. An older or a changed response has none. */
  ageOf(sent: ExecutedResponse): ResponseAge | undefined {
    const contents = this.#contents?.();
    if (contents === undefined || this.origin === undefined) return undefined;
    if (this.isChanged(sent) || (!this.#isServed && sent.data == null)) return undefined;
    const { ownMaxAge = Number.POSITIVE_INFINITY, isPrivate = false } = this.#plan ?? {};
    return { maxAge: secondsOf(contents, ownMaxAge), isPrivate: isPrivate || contents.isPrivate };
  }

  /** Returns the headers, with the `Cache-Control` for the age in the end. Never rejects. */
  async headers(ageOf: () => ResponseAge | undefined): Promise<Readonly<Record<string, string>>> {
    const { vary, clientMaxAge } = this.edge.options;
    const varying = { Vary: vary.join(", ") };
    const contents = this.#contents?.();
    const keptFor = (): ResponseAge | undefined => {
      const { maxAge, isPrivate } = ageOf() ?? { maxAge: 0, isPrivate: false };
      // The policies of Apollo Server are rounded up.
      const seconds = secondsOf(contents, maxAge);
      return seconds > 0 ? { maxAge: seconds, isPrivate } : undefined;
    };
    const tags = keptFor()?.isPrivate === false ? await this.#tagHeaders(contents) : undefined;
    // Others can have said something else meanwhile.
    const age = keptFor();
    if (age === undefined || tags === "outdated") return { ...varying, "Cache-Control": "no-store" };
    const ofClient = `max-age=${Math.min(clientMaxAge, age.maxAge)}`;
    if (tags === undefined || age.isPrivate) return { ...varying, "Cache-Control": `${ofClient}, private` };
    const directives = [ofClient, `s-maxage=${age.maxAge}`];
    const staleFor = Math.floor((contents?.staleForMs ?? 0) / 1_000);
    // What is not cached has no time in which it may be served stale.
    if (this.#plan?.isAllCached !== false && staleFor > 0 && Number.isFinite(staleFor))
      directives.push(`stale-while-revalidate=${staleFor}`);
    return { ...varying, ...tags, "Cache-Control": [...directives, "public"].join(", ") };
  }

  /** Undefined: it is for no CDN, or not all of it is known. `outdated`: it was invalidated. */
  async #tagHeaders(contents: Contents | undefined): Promise<Record<string, string> | "outdated" | undefined> {
    const { edge, origin, context } = this;
    const { tagHeaders, maxTags, maxTagBytes, contextPaths } = edge.options;
    const { keys, contextWatch, invalidations, onceLog } = edge.parts;
    if (origin === undefined || contents?.subjects === undefined || !contents.isComplete) return undefined;
    // Without a plan, not all of it is known either.
    if (contents.isPrivate || this.#plan === undefined || this.#plan.isPrivate) return undefined;
    if (!this.#plan.isStorable) return undefined;
    // Hooks and resolvers can have found out who is asking.
    if (mayBeSignedIn(edge.parts, context)) return undefined;
    if (contents.contextPaths.some((path) => !contextPaths.has(path))) return undefined;
    const missing = this.#missing.filter((name) => !contextWatch.isNoIdentity(context as object, name));
    if (missing.length > 0) {
      onceLog.warn(contextReadLine(missing, REMEDY));
      return undefined;
    }
    const { everything, coordinate } = keys.subjects;
    const subjects = [...new Set([everything, coordinate(RESPONSES), ...contents.subjects])];
    // What was invalidated meanwhile was purged before this response is kept.
    if (!(await invalidations.follow()) || invalidations.restarts !== origin.restarts) return undefined;
    if (invalidations.stateOf(subjects, origin.position) !== "current") return "outdated";
    const names = subjects.map(nameOfSubject);
    const headers = tagHeaders.map(({ name, separator }) => [name, names.join(separator)] as const);
    if (names.length <= maxTags && headers.every(([, { length }]) => length <= maxTagBytes))
      return Object.fromEntries(headers);
    onceLog.warn(
      `graphql-cached: \`edge\`: a response is private, since it has more tags than a header may have (maxTags: ${maxTags}, maxTagBytes: ${maxTagBytes}); raise the limits as far as your CDN allows, or give its parts fewer tags`,
    );
    return undefined;
  }
}

const REMEDY = (path: string): string =>
  `name the header that decides ${JSON.stringify(path)} in \`edge.contextHeaders\`, or make the field PRIVATE`;

/** Returns whole seconds, no longer than what is in it is fresh. */
function secondsOf(contents: Contents | undefined, most: number): number {
  const seconds = Math.min(most, Math.floor((contents?.freshForMs ?? Number.POSITIVE_INFINITY) / 1_000));
  return Number.isFinite(seconds) ? seconds : 0;
}
