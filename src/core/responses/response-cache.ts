import type { ExecutionArgs, GraphQLSchema } from "graphql";
import { attempt } from "../base/built-in.js";
import { getOrMake } from "../base/multimap.js";
import { checkResponses } from "../directive/compile/shared-entries.js";
import { type Key, RESPONSES, type Variant } from "../keys/key.js";
import { identityMistake, identityOf } from "../loader/identity.js";
import type { Observer } from "../loader/request-states.js";
import type { CacheParts } from "../parts.js";
import { KnownKey, type Memo } from "../tier/request/known-key.js";
import { NO_TAGS } from "../tier/request/tags.js";
import { Admission, type OperationState } from "./admission.js";
import type { OperationPlan, OperationPlanner } from "./operation-plan.js";
import type { ResolvedResponses } from "./options.js";
import { type Begun, executeUnstored, type Operation, type ResponseAge } from "./response-execution.js";
import { type Owner, reportStart, responseKey, shapeOf } from "./response-key.js";
import { type Asked, ResponseRequest, type ResponsesParts } from "./response-request.js";
import { asStored } from "./stored-response.js";

/**
 * Whole responses as entries of the cache. The load of a response is its execution by the server:
 * this class only decides whether there has to be one. So errors, hints, traces and hooks are those
 * of an ordinary request.
 */
export class ResponseCache {
  readonly #variants = new WeakMap<GraphQLSchema, Variant>();
  readonly #shared: ResponsesParts;
  readonly #memo: Memo;
  readonly #slot: number;

  /** `usesPolicies`: policies of cached fields, not the server, say how long responses are kept. */
  constructor(
    private readonly parts: CacheParts,
    private readonly planner: OperationPlanner,
    options: ResolvedResponses,
    private readonly usesPolicies: boolean,
  ) {
    const hasMemory = parts.tier.memory !== undefined;
    const minHits = hasMemory ? MIN_HITS_WITH_MEMORY : MIN_HITS;
    this.#shared = {
      parts,
      options,
      admission: new Admission({ minHits, maxOperations: options.maxOperations }),
      parsed: hasMemory ? new WeakMap() : undefined,
      privateReads: new Map(),
    };
    this.#memo = parts.memos.of("responses");
    this.#slot = this.#memo.slotOf(JSON.stringify([options, usesPolicies]));
  }

  /** Prepares for a schema when a server starts, so that no request has to. */
  prepare(schema: GraphQLSchema): void {
    this.#variantOf(schema);
  }

  /** Undefined: nothing. `observer`: that of the request, told of all reads. Never rejects. */
  begin(operation: Operation, observer?: Observer): Promise<Begun> | undefined {
    const { requestStates } = this.parts;
    const { context } = operation;
    // What it reads is a part of the response in whose execution it is asked for.
    if (requestStates.isPartOfResponse(context)) return undefined;
    // What it reads is a part of no other response.
    if (observer === undefined) requestStates.own(context);
    else if (requestStates.observer(context) === undefined) requestStates.observe(context, observer);
    // Whatever it throws, the operation is executed as without the cache.
    return attempt(() => this.#begin(operation, observer));
  }

  ended(context: object): void {
    this.parts.requestStates.release(context);
  }

  /** The age by schema and policies of fields, for servers without rules of their own. */
  ageOf(operation: Operation): ResponseAge | undefined {
    const { ownMaxAge = 0, isPrivate = false } = this.planner.plan(operation) ?? {};
    return ownMaxAge === 0 ? undefined : { maxAge: ownMaxAge, isPrivate };
  }

  /** An executed result that stays in the process, where others are served what is stored of it. */
  inProcess<Result extends object>(
    operation: Pick<ExecutionArgs, "schema" | "document" | "operationName">,
    result: Result,
  ): Result {
    return attempt(() => this.planner.plan(operation)?.hasOwnScalars) === true ? asStored(result) : result;
  }

  #begin(operation: Operation, observer: Observer | undefined): Promise<Begun> | undefined {
    const { requestStates, tier, clock, rules } = this.parts;
    const { options, admission } = this.#shared;
    const { context } = operation;
    const variant = this.#variantOf(operation.schema);
    const plan = this.planner.plan(operation);
    if (plan === undefined || !plan.isStorable || !rules.storing.has(operation.schema)) return undefined;
    const isExpected = (this.usesPolicies ? plan.ownMaxAge : plan.hintedMaxAge) > 0;
    if (this.usesPolicies && !isExpected) return undefined;
    const learned = admission.of(plan.digest);
    const owner = this.#ownerOf(context, plan, learned);
    const executed = async (learn?: (isCacheable: boolean) => void): Promise<Begun> =>
      executeUnstored(owner.isPrivate, learn);
    const override = requestStates.overrideOf(context);
    if (override === "BYPASS" || tier.loads.reader() !== undefined || this.#isOff(plan)) return executed();
    // It is not looked up until an execution has shown that it is cacheable.
    if (!(learned.isCacheable ?? isExpected))
      return executed((isCacheable) => {
        learned.isCacheable = isCacheable;
      });
    if (!owner.isKnown) return executed();
    const named = responseKey(this.parts, operation, plan, owner, { variant, keyPaths: options.keyPaths });
    if (named === undefined || admission.isUnstorable(named.key.digest, clock.now())) return executed();
    const ageOf = (): ResponseAge | undefined => this.ageOf(operation);
    return this.#read({ operation, plan, named, observer, learned, isForced: override === "REFRESH", ageOf });
  }

  /** Which loaders its resolvers call is not known. */
  #isOff({ coordinates }: OperationPlan): boolean {
    const { tier, loaders } = this.parts;
    const { modes } = tier;
    return !modes.isUnrestricted && [RESPONSES, ...coordinates, ...loaders.keys()].some((one) => modes.isOff(one));
  }

  /** Returns whose a response is. If that is not known, it is not stored, and the log says why. */
  #ownerOf(context: object, plan: OperationPlan, learned: OperationState): Owner & { readonly isKnown: boolean } {
    const { identify, onceLog } = this.parts;
    const { scope, guests } = this.#shared.options;
    const identity = identityOf(identify, context);
    const isOfCaller = plan.isPrivate || learned.isPrivate;
    const isPrivate = isOfCaller || (scope === "PRIVATE" && !plan.isPublic);
    if (identity !== undefined) return { identity, isPrivate, isKnown: true };
    const mistake =
      identify === undefined && isPrivate ? IDENTIFY_MISSING : identityMistake(identify, context, RESPONSES)?.message;
    if (mistake !== undefined)
      onceLog.warn(
        `graphql-cached: responses of one caller are not stored, since it is not known whose they are: ${mistake}`,
      );
    const isGuest = mistake === undefined && !isOfCaller && (!isPrivate || guests === "PUBLIC");
    return { identity, isPrivate: isPrivate && !isGuest, isKnown: isGuest };
  }

  async #read(asked: Asked): Promise<Begun> {
    const { learned, named, isForced } = asked;
    const { tier, clock } = this.parts;
    const { admission } = this.#shared;
    const isKnown = admission.isKnown(learned);
    // An operation that a client sends once must not take the place of values in memory.
    const known = isKnown ? this.#knownOf(named.key) : new KnownKey(named.key, NO_TAGS);
    const request = new ResponseRequest(this.#shared, asked, known);
    const kept = !isForced && (await tier.confirmed(known)) ? request.fromMemory() : undefined;
    if (kept !== undefined) return kept;
    const passes = isKnown && !isForced && admission.passes(learned, named.key.digest);
    // It would be in memory.
    if (passes && tier.memory !== undefined) return executeUnstored(named.isPrivate);
    return request.begin(isForced || (isKnown && !passes && admission.hasRoom(learned, clock.now())));
  }

  #knownOf(key: Key): KnownKey {
    // The hash is that of the input, which is the same for all schemas.
    const row = this.#memo.row(`${key.variantId} ${key.hash}`);
    const known = row.keys[this.#slot];
    if (known !== undefined) return known;
    const made = new KnownKey(key, NO_TAGS, row);
    this.#memo.remember(made, this.#slot);
    return made;
  }

  #variantOf(schema: GraphQLSchema): Variant {
    return getOrMake(this.#variants, schema, () => {
      const { keys, variants } = this.parts;
      const { maxAgeMs, extensions, tags } = this.#shared.options;
      const shape = shapeOf(schema, this.parts);
      const variant = keys.variant({
        kind: "response",
        shape,
        versions: [],
        // Servers with other options share no responses.
        keyTemplate: [JSON.stringify([maxAgeMs, extensions, this.usesPolicies])],
        tagTemplates: [],
      });
      variants.declare(RESPONSES, variant);
      if (tags === undefined) reportStart(schema, this.parts);
      checkResponses(schema, shape, this.parts);
      return variant;
    });
  }
}

const IDENTIFY_MISSING =
  "createCache: `identify`: expected a function, got undefined; pass createCache({ identify: (context) => context.userId })";

/**
 * How many hits pay for a stored response, by the page of `bench/scenarios/responses.ts`. With
 * memory, an execution that is not stored costs less, since its parts come from there.
 */
const MIN_HITS = 1;
const MIN_HITS_WITH_MEMORY = 3;
