import type { GraphQLResolveInfo } from "graphql";
import { executionOf } from "../base/graphql-version.js";
import { CollectedParts, collecting } from "../collected-parts.js";
import type { HintedInfo } from "../directive/hints/response-hint.js";
import type { Build } from "../loader/request-states.js";
import type { CacheParts } from "../parts.js";
import type { FieldRule } from "../schema-rules.js";
import type { ResponseHint } from "../store/body.js";
import type { SkipReason } from "../telemetry/events.js";
import { isNegative } from "../tier/request/loaded.js";
import type { LoadControl } from "../tier/request/result-control.js";

/** The load of a subtree: an execution of its field inside of another one. What it reads is collected, and told to the observer of its request. */
export class SubtreeBuild implements Build {
  readonly coordinate: string;
  context: unknown;
  readonly original: unknown;
  readonly load: Build["load"];
  readonly observer: Build["observer"];
  readonly #parts: CacheParts;
  readonly #rule: FieldRule;
  readonly #info: GraphQLResolveInfo;
  readonly #skipped: (reason: SkipReason, subject: string) => void;
  readonly #collected: CollectedParts;
  readonly #startedAt: number;
  readonly #fields: object[] = [];
  /** Every object of a list can be the reason. */
  readonly #reported = new Set<string>();

  /** `rule`: that of the subtree. `info`: that of its load. `skipped`: reports why it is not stored. */
  constructor(
    parts: CacheParts,
    rule: FieldRule,
    context: unknown,
    info: GraphQLResolveInfo,
    skipped: (reason: SkipReason, subject: string) => void,
  ) {
    this.coordinate = rule.coordinate;
    this.context = context;
    this.original = context;
    this.#parts = parts;
    this.#rule = rule;
    this.#info = info;
    this.#skipped = skipped;
    this.#startedAt = parts.clock.now();
    this.load = parts.tier.loads.enclosing();
    this.#collected = new CollectedParts(parts, {
      what: `the subtree of \`${rule.coordinate}\``,
      contextPaths: rule.contextPaths.map(({ text }) => text),
      isBuild: true,
    });
    const around = parts.requestStates.observer(context);
    const { budget } = parts.requestStates.loader(executionOf(info), around);
    this.observer = { ...collecting(around, this.#collected), budget };
  }

  /** Runs the execution. What a PUBLIC subtree reads of the context, outside of its key and of what all callers share, keeps it from being stored. */
  async run<T>(execute: (context: unknown) => Promise<T>): Promise<T> {
    const { requestStates, contextWatch } = this.#parts;
    const { coordinate, policy, contextPaths } = this.#rule;
    const keyProperties = contextPaths.flatMap(({ steps }) => steps.slice(0, 1));
    const onRead = (property: string): void => this.#refuse("CONTEXT_READ", property);
    const isPublic = policy.scope === "PUBLIC";
    const watch = isPublic ? contextWatch.watchBuild({ coordinate, keyProperties, onRead }, this.original) : undefined;
    if (isPublic && watch === undefined) this.#refuse("CONTEXT_FROZEN", coordinate);
    if (watch !== undefined) this.context = watch.context;
    const ended = requestStates.begin(this);
    const run = (): Promise<T> => execute(this.context);
    try {
      return await (watch === undefined ? run() : watch.run(run));
    } finally {
      ended();
    }
  }

  #skip(reason: SkipReason, subject: string): void {
    if (!this.#reported.has(`${reason} ${subject}`)) this.#skipped(reason, subject);
    this.#reported.add(`${reason} ${subject}`);
  }

  #refuse(reason: SkipReason, subject: string): void {
    this.#skip(reason, subject);
    this.#collected.pass(`${reason} ${subject}`);
  }

  executed(info: object): void {
    this.#fields.push(info);
  }

  /**
   * Sets what is stored with the value: the subjects of all its parts, the narrowest of their hints, and how long the first of them is fresh.
   * Returns whether it can be stored. `tags`: further ones.
   */
  describe(control: LoadControl, value: unknown, tags: readonly string[]): boolean {
    const { policy, coordinate } = this.#rule;
    const subjects = this.#collected.subjects();
    const isOfOneCaller = this.#collected.isPrivate && policy.scope === "PUBLIC";
    if (isOfOneCaller) this.#skip("PRIVATE", coordinate);
    if (subjects === undefined) this.#skip("TOO_MANY_PARTS", coordinate);
    // A part has bypassed the cache, for example.
    if (this.#collected.refusal !== undefined && this.#reported.size === 0) this.#skip("UNSTORABLE", coordinate);
    if (isOfOneCaller || subjects === undefined || this.#collected.refusal !== undefined) return false;
    control.addSubjects([...subjects, ...this.#parts.keys.tags(tags)]);
    const hint = this.#hint();
    if (hint !== undefined) (this.#info as HintedInfo).cacheControl?.setCacheHint(hint);
    const ownMs = isNegative(value) ? policy.negativeMaxAgeMs : policy.maxAgeMs;
    const leftMs = this.#collected.freshUntilAt - this.#startedAt;
    // Stale parts are loaded again soon. Those who wait get the value, as they would get its parts.
    if (leftMs <= 0) control.skip();
    else if (leftMs < ownMs) control.set({ maxAge: leftMs / 1000 });
    if (this.#collected.staleForMs < policy.staleWhileRevalidateMs)
      control.set({ staleWhileRevalidate: this.#collected.staleForMs / 1000 });
    return true;
  }

  /** Returns the narrowest hint of all fields. Undefined if the server has none. */
  #hint(): ResponseHint | undefined {
    const hints = this.#fields.flatMap((info) => (info as HintedInfo).cacheControl?.cacheHint ?? []);
    if (hints.length === 0) return undefined;
    const ages = hints.flatMap(({ maxAge }) => maxAge ?? []);
    return {
      ...(ages.length === 0 ? {} : { maxAge: Math.min(...ages) }),
      scope: hints.some(({ scope }) => scope === "PRIVATE") ? "PRIVATE" : "PUBLIC",
    };
  }
}
