import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import type { Clock } from "../clock.js";
import { type Content, Unstorable } from "../codec/codec.js";
import type { Packing } from "../codec/packing.js";
import { CachedError, type ErrorCode } from "../errors.js";
import type { Channel } from "../telemetry/channel.js";
import type { Loaded, Refusal } from "./loaded.js";
import type { ReadRequest } from "./request.js";
import { isRefusal, type SourceGuard } from "./source-guard.js";

/** A running load. Neither promise rejects. */
export interface RunningLoad {
  /**
   * The result for readers: the result of the load, or `CACHED_LOAD_TIMEOUT` after the time limit.
   */
  readonly limited: Promise<Loaded>;
  /** The result of the load, whenever it ends. */
  readonly completed: Promise<Loaded>;
}

/**
 * Runs loads. Measures them, limits how long readers wait for them, and tracks which loads call
 * which.
 */
export class Loads {
  readonly #clock: Clock;
  readonly #channel: Channel;
  readonly #packing: Packing;
  readonly #guard: SourceGuard;
  readonly #timeoutMs: number;
  /** The keys of the loads that the current asynchronous context is inside of. */
  readonly #nesting = new AsyncLocalStorage<ReadonlySet<string>>();
  #running = 0;
  /** The asynchronous context of refreshes, outside the context of any request. */
  readonly #refreshContext = new AsyncResource("graphql-cached.refresh");

  constructor(clock: Clock, channel: Channel, packing: Packing, guard: SourceGuard, timeoutMs: number) {
    this.#clock = clock;
    this.#channel = channel;
    this.#packing = packing;
    this.#guard = guard;
    this.#timeoutMs = timeoutMs;
  }

  /** Returns the keys of the loads that the caller runs inside of; empty outside of loads. */
  enclosingKeys(): ReadonlySet<string> {
    return this.#running === 0 ? NONE : (this.#nesting.getStore() ?? NONE);
  }

  /** Starts a load at once, so that all loads of one tick reach their source in that tick. */
  run(request: ReadRequest, isRefresh: boolean): RunningLoad {
    return isRefresh ? this.#refreshContext.runInAsyncScope(() => this.#run(request, true)) : this.#run(request, false);
  }

  #run(request: ReadRequest, isRefresh: boolean): RunningLoad {
    const { coordinate, digest, name } = request.key;
    let startedAt = this.#clock.now();
    const load = async (): Promise<unknown> => {
      startedAt = this.#clock.now();
      this.#channel.publish({ name: "load.started", coordinate, digest, isRefresh });
      return request.load();
    };
    const outerKeys = this.enclosingKeys();
    this.#running++;
    const { result, expire } = this.#nesting.run(new Set([...outerKeys, name]), () =>
      this.#guard.run(coordinate, outerKeys.size > 0, load),
    );
    const completed = result.then(
      (value): Loaded => this.#finish(request, value, this.#clock.now() - startedAt),
      (error: unknown): Loaded => {
        this.#channel.publish({ name: isRefusal(error) ? "load.refused" : "load.failed", coordinate, digest, error });
        const refusal = request.excess?.()?.kind;
        return { kind: "failed", error, refusal, loadMs: this.#clock.now() - startedAt };
      },
    );
    void completed.then(() => this.#onEnd());
    return { completed, limited: this.#withinTimeLimit(completed, coordinate, expire) };
  }

  /**
   * Disables the AsyncLocalStorage when the last load ends: in Node.js 20 and 22, an enabled one
   * slows down every promise of the process.
   */
  #onEnd(): void {
    this.#running--;
    if (this.#running === 0) this.#nesting.disable();
  }

  #finish(request: ReadRequest, value: unknown, loadMs: number): Loaded {
    const { coordinate, digest } = request.key;
    this.#channel.publish({ name: "load.finished", coordinate, digest, loadMs });
    const hint = request.hintOf?.();
    const excess = request.excess?.();
    if (excess?.kind === "unkeyable")
      this.#channel.publish({ name: "value.refused", coordinate, digest, error: excess.error });
    if (excess !== undefined) return { kind: "loaded", content: undefined, refusal: excess.kind, value, hint, loadMs };
    let content: Content | undefined;
    let refusal: Refusal | undefined;
    try {
      content = this.#packing.encode(value);
      refusal = this.#refusalOf(request, value, content);
    } catch (cause) {
      refusal = "unserializable";
      const actual = cause instanceof Unstorable ? cause.message : "a value that the codec could not encode";
      this.#reportRefused(
        request,
        "CACHED_VALUE_UNSERIALIZABLE",
        `expected plain data, Date, BigInt, Map, Set or Buffer, got ${actual}; return plain data, or declare the class in createCache({ types })`,
        cause,
      );
    }
    return { kind: "loaded", content, refusal, value, hint, loadMs };
  }

  /** Returns why a value is not stored although it can be encoded, and reports it. */
  #refusalOf(request: ReadRequest, value: unknown, content: Content): Refusal | undefined {
    const bytes = this.#packing.excessBytes(content);
    if (bytes !== undefined) {
      this.#reportRefused(
        request,
        "CACHED_VALUE_TOO_LARGE",
        `expected at most ${this.#packing.maxValueBytes} bytes, got ${bytes}; return less data, or raise \`maxValueBytes\``,
      );
      return "too-large";
    }
    const mistake = request.validator?.mistakeIn(value, request, true);
    if (mistake === undefined) return undefined;
    this.#reportRefused(
      request,
      "CACHED_VALUE_INVALID",
      `expected a value that matches the schema, got ${mistake}; correct the resolver, or the type in the schema`,
    );
    return "invalid";
  }

  #reportRefused({ key }: ReadRequest, code: ErrorCode, what: string, cause?: unknown): void {
    const { coordinate, digest } = key;
    const message = `\`${coordinate}\`: the value is not cached: ${what}`;
    const error = new CachedError(code, message, cause === undefined ? { coordinate } : { coordinate, cause });
    this.#channel.publish({ name: "value.refused", coordinate, digest, error });
  }

  /** Calls `expire` when the time is over. */
  #withinTimeLimit(load: Promise<Loaded>, coordinate: string, expire: () => void): Promise<Loaded> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(this.#timeoutMs, () => {
        const error = new CachedError(
          "CACHED_LOAD_TIMEOUT",
          `\`${coordinate}\`: expected the load to finish within ${this.#timeoutMs} ms, but it is still running; speed up the source, or raise \`loadTimeoutMs\``,
          { coordinate },
        );
        resolve({ kind: "failed", error, refusal: undefined, loadMs: this.#timeoutMs });
        expire();
      });
      void load.then((loaded) => {
        cancel();
        resolve(loaded);
      });
    });
  }
}

const NONE: ReadonlySet<string> = new Set();
