import type {
  BaseContext,
  GraphQLRequest,
  GraphQLRequestContextExecutionDidStart,
  GraphQLRequestContextResponseForOperation,
  GraphQLRequestContextWillSendResponse,
  GraphQLRequestExecutionListener,
  GraphQLRequestListener,
  GraphQLResponse,
} from "@apollo/server";
import type { HintedInfo } from "../../core/directive/hints/response-hint.js";
import type { FieldLoader } from "../../core/loader/field-loader.js";
import { type Observer, OVERRIDES } from "../../core/loader/request-states.js";
import type { ExecutedResponse, ResponseAge, ResponseExecution } from "../../core/responses/response-execution.js";
import { dataTextOf, resultOf } from "../../core/responses/stored-response.js";
import { isAllowed } from "../../tools/inspection/access.js";
import {
  mistakeInTrace,
  requestedTrace,
  type TraceOptions,
  TraceRecorder,
  tracedExtensions,
} from "../../tools/inspection/trace.js";
import { type Adapter, namesEtag, type RequestedTrace, setEdgeHeaders } from "../adapter/adapter.js";
import type { EdgeResponse } from "../edge/edge.js";
import { NarrowestPolicy, restrictHint, secondsLeft } from "./cache-hints.js";
import { decideToTheEnd, hasStatus, headersOf, type SentResponse, StoredEtag } from "./final-response.js";
import type { ServedResults } from "./stringify-result.js";

interface ApolloParts<Context> {
  readonly adapter: Adapter;
  readonly options: TraceOptions<Context>;
  readonly servedResults: ServedResults;
}

/** One request to Apollo Server: its hooks, in the order in which the server calls them. */
export class ApolloRequest<Context extends BaseContext> implements GraphQLRequestListener<Context> {
  readonly #added: RequestedTrace | undefined;
  readonly #observer: Observer;
  readonly #narrowest = new NarrowestPolicy();
  readonly #executions: FieldLoader[] = [];
  #execution: ResponseExecution | undefined;
  #isExecuted = false;
  #isServed = false;
  #etag: StoredEtag | undefined;
  /** At the look-up, and after the execution. Others send their headers with hits as well. */
  #before = NO_HEADERS;
  #after = NO_HEADERS;
  #executed: () => ExecutedResponse | undefined = () => undefined;
  #stopCollecting: (() => void) | undefined;

  private constructor(
    private readonly given: ApolloParts<Context>,
    private readonly context: Context,
    private readonly http: GraphQLRequest["http"],
    private readonly atEdge: EdgeResponse | undefined,
    requested: unknown,
  ) {
    const isRecorded = requested === true || OVERRIDES.some((one) => one === requested);
    const trace = isRecorded ? new TraceRecorder() : undefined;
    if (requested !== undefined) this.#added = trace ?? mistakeInTrace(requested, OVERRIDES);
    // Leads to no context, by which it is found: see `StateOf`.
    const [narrowest, executions] = [this.#narrowest, this.#executions];
    this.#observer = {
      ...(trace === undefined ? { onFresh: (...fresh) => narrowest.addFresh(...fresh) } : {}),
      onRead(coordinate, report, info) {
        narrowest.add(report);
        if (info !== undefined) restrictHint(info as HintedInfo, report);
        trace?.onRead(coordinate, report);
      },
      onHint(hint, info) {
        narrowest.addHint(hint);
        (info as HintedInfo | undefined)?.cacheControl?.setCacheHint(hint);
      },
      // How old it is, is not known: no part of a second is added.
      onKnown: (isPrivate, freshForMs = ENDLESS) => narrowest.addFresh(freshForMs, ENDLESS, isPrivate),
      onExecution: (one) => executions.push(one),
    };
    given.adapter.parts.requestStates.observe(context, this.#observer);
  }

  static async begin<Context extends BaseContext>(
    given: ApolloParts<Context>,
    context: Context,
    { http, extensions }: GraphQLRequest,
  ): Promise<ApolloRequest<Context>> {
    const { allow } = given.options;
    const { parts, edge } = given.adapter;
    const requested = requestedTrace(extensions);
    const override = OVERRIDES.find((one) => one === requested);
    if (override !== undefined && allow !== undefined && (await isAllowed(allow, context)))
      parts.requestStates.override(context, override);
    const header = (name: string): string | undefined => http?.headers.get(name);
    const isTraced = requested !== undefined;
    const atEdge = await edge?.begin(context, http && { method: http.method, header, isTraced });
    return new ApolloRequest(given, context, http, atEdge, requested);
  }

  async responseForOperation(
    operation: GraphQLRequestContextResponseForOperation<Context>,
  ): Promise<GraphQLResponse | null> {
    const { responses } = this.given.adapter;
    // A name that the document does not have is told of as null.
    if (responses === undefined || operation.operation == null) return null;
    const { schema, document, operationName, overallCachePolicy, response } = operation;
    const { variables } = operation.request;
    const asked = { schema, document, operationName, variables, context: this.context };
    const begun = await responses.begin(asked, this.#observer);
    operation.metrics.responseCacheHit = begun?.kind === "served";
    if (begun?.kind === "served") {
      this.#isServed = true;
      this.atEdge?.served(begun);
      const scope = begun.isPrivate ? "PRIVATE" : "PUBLIC";
      overallCachePolicy.replace({ maxAge: secondsLeft(begun.report.freshForMs, begun.report.ageMs), scope });
      const http = this.http;
      const stored = begun.response;
      if (http?.method === "GET" && this.#added === undefined)
        this.#etag = new StoredEtag(stored, namesEtag(http.headers.get("if-none-match"), stored.etag));
      // Other plugins may add to the result, but not change its data.
      const singleResult =
        http === undefined
          ? resultOf(stored, stored.data)
          : this.given.servedResults(stored, response.http, () => this.#etag?.isKnown === true);
      return { http: response.http, body: { kind: "single", singleResult } };
    }
    this.#execution = begun?.execution;
    if (begun?.execution.parts !== undefined) this.#executed = watchResult(operation);
    this.#before = new Map(response.http.headers);
    return null;
  }

  // Not earlier: a field that sets a hint replaces what was restricted before.
  async executionDidStart(
    begun: GraphQLRequestContextExecutionDidStart<Context>,
  ): Promise<GraphQLRequestExecutionListener<Context>> {
    const { overallCachePolicy, response, schema, document, operationName } = begun;
    this.#isExecuted = true;
    const execution = this.#execution;
    const operation = { schema, document, operationName, context: this.context };
    this.#stopCollecting = this.atEdge?.execute(operation, this.#observer, execution);
    const executionDidEnd = async (): Promise<void> => {
      const result = response.body?.kind === "single" ? response.body.singleResult : undefined;
      if (result !== undefined) this.atEdge?.executed(result);
      execution?.executed?.();
      this.#stopCollecting?.();
      this.#narrowest.restrict(overallCachePolicy);
      this.#after = new Map(response.http.headers);
      if (execution?.isPrivate === true) overallCachePolicy.restrict({ scope: "PRIVATE" });
    };
    return { executionDidEnd };
  }

  async willSendResponse(context: GraphQLRequestContextWillSendResponse<Context>): Promise<void> {
    const { response } = context;
    const { parts, responses, edge } = this.given.adapter;
    parts.contextReads.flush();
    if (responses !== undefined && context.metrics.responseCacheHit === true && !this.#isServed)
      parts.onceLog.warn(OTHER_CACHE);
    if (this.#execution !== undefined)
      await endExecution(this.#execution, context, this.#executed(), this.#isRefused());
    // Later than Apollo Server, whose header this narrows.
    const atEdge = this.atEdge;
    if (atEdge !== undefined) await sendToEdge(atEdge, context);
    const http = this.http;
    const isChanged = (sent: ExecutedResponse): boolean => atEdge?.isChanged(sent) === true;
    if (http !== undefined && (edge !== undefined || this.#etag !== undefined))
      decideToTheEnd(response, http, { etag: this.#etag, edge: edge && { context: this.context, isChanged } });
    const { body } = response;
    // The other fields of a response in parts are still to be executed.
    if (body?.kind !== "single") return;
    if (responses !== undefined && http === undefined && !this.#isServed) {
      const operation = context as GraphQLRequestContextResponseForOperation<Context>;
      body.singleResult = responses.inProcess(operation, body.singleResult);
    }
    for (const execution of this.#executions) execution.clear();
    responses?.ended(this.context);
    if (this.#added === undefined) return;
    const { extensions: others } = body.singleResult;
    const extensions = await tracedExtensions(others, this.#added, this.given.options, this.context);
    // Other plugins can have added to them meanwhile.
    if (extensions !== undefined) body.singleResult.extensions = { ...body.singleResult.extensions, ...extensions };
  }

  /** Ends what has begun, since nothing is sent. */
  abandon(): void {
    this.#execution?.abandon();
    this.#stopCollecting?.();
  }

  /** Whether the response must not be stored: another plugin has made it, or set headers. */
  #isRefused(): boolean {
    const before = this.#before;
    return (
      !this.#isExecuted || [...this.#after].some(([name, value]) => !OF_SERVER.has(name) && before.get(name) !== value)
    );
  }
}

type Asked = Pick<GraphQLRequestContextResponseForOperation<BaseContext>, "response" | "overallCachePolicy">;
type Answered = { readonly response: SentResponse } & Pick<Asked, "overallCachePolicy">;

/** Of Apollo Server itself; in a batch, also of responses that were ready before. */
const OF_SERVER: ReadonlySet<string> = new Set(["cache-control", "content-type", "vary"]);
const NO_HEADERS: ReadonlyMap<string, string> = new Map();
const OTHER_CACHE =
  "graphql-cached: cachedPlugin: `responses`: expected to be the only response cache, got a response from another one, which nothing invalidates; remove @apollo/server-plugin-response-cache from the plugins, or `responses`";

/**
 * Watches for the result of the execution: plugins whose `willSendResponse` comes first can replace
 * it, or change its data, for one caller, and make it cacheable.
 */
function watchResult({ response }: Asked): () => ExecutedResponse | undefined {
  let executed: ExecutedResponse | undefined;
  let current = response.body;
  Object.defineProperty(response, "body", {
    configurable: true,
    enumerable: true,
    get: () => current,
    set: (body: GraphQLResponse["body"]) => {
      if (executed === undefined && body.kind === "single") {
        const { data, errors, extensions } = body.singleResult;
        // With errors, it is not stored.
        const kept = (errors ?? []).length > 0 ? data : copyOfData(data);
        executed = { data: kept, errors, extensions: extensions && { ...extensions } };
      }
      current = body;
    },
  });
  return () => executed;
}

/** Data that JSON cannot write is not stored. */
function copyOfData(data: unknown): unknown {
  const text = dataTextOf(data);
  return text === undefined ? data : JSON.parse(text);
}

/** Ends the execution of a response, which is stored if the rules of Apollo Server allow it. */
async function endExecution(
  execution: ResponseExecution,
  { response: { body, http }, overallCachePolicy }: Answered,
  executed: ExecutedResponse | undefined,
  isRefused: boolean,
): Promise<void> {
  if (body.kind !== "single") {
    execution.abandon();
    return;
  }
  const age = ageIn(undefined, overallCachePolicy.policyIfCacheable());
  const older = await execution.end(executed ?? body.singleResult, age, isRefused || hasStatus(http));
  if (older === undefined) return;
  body.singleResult = resultOf(older, older.data);
  overallCachePolicy.restrict({ maxAge: 0 });
}

/**
 * Never more than the `Cache-Control` of Apollo Server, which this replaces, or than other plugins
 * say meanwhile.
 */
async function sendToEdge(atEdge: EdgeResponse, { response, overallCachePolicy }: Answered): Promise<void> {
  const { http } = response;
  const age = (): ResponseAge | undefined => {
    const { body } = response;
    if (body.kind !== "single" || body.singleResult.errors !== undefined) return undefined;
    return ageIn(http.headers.get("cache-control"), overallCachePolicy.policyIfCacheable());
  };
  await setEdgeHeaders(headersOf(http.headers), atEdge, age, () => age() !== undefined);
}

const ENDLESS = Number.POSITIVE_INFINITY;

/** Returns what a `Cache-Control` or else the policy says. Undefined: Apollo Server forbids it. */
function ageIn(
  header: string | undefined,
  policy: { readonly maxAge: number; readonly scope: "PUBLIC" | "PRIVATE" } | null,
): ResponseAge | undefined {
  if (policy === null) return undefined;
  if (header === undefined) return { maxAge: policy.maxAge, isPrivate: policy.scope === "PRIVATE" };
  const [, maxAge, scope] = /^max-age=(\d+), (public|private)$/.exec(header) ?? [];
  return maxAge === undefined ? undefined : { maxAge: Number(maxAge), isPrivate: scope === "private" };
}
