import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import type { Clock } from "../clock.js";
import { type Content, Unstorable } from "../codec/codec.js";
import type { Packing } from "../codec/packing.js";
import { CachedError } from "../errors.js";
import type { ResponseHint } from "../store/body.js";
import type { Channel } from "../telemetry/channel.js";
import type { ReadRequest } from "./request.js";
import { isRefusal, type SourceGuard } from "./source-guard.js";

/**
 * The result of a load. `content` is undefined if the value cannot be encoded, so that it can be
 * neither stored nor shared; `value` is the source's own object. A value that `isTooLarge` is
 * shared, but not stored.
 */
export type Loaded =
  | {
      readonly kind: "loaded";
      readonly content: Content | undefined;
      readonly isTooLarge: boolean;
      readonly value: unknown;
      readonly hint: ResponseHint | undefined;
      readonly loadMs: number;
    }
  | { readonly kind: "failed"; readonly error: unknown; readonly loadMs: number };

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
        return { kind: "failed", error, loadMs: this.#clock.now() - startedAt };
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
    const { content, error } = this.#encode(value, coordinate);
    if (error !== undefined) this.#channel.publish({ name: "value.refused", coordinate, digest, error });
    const isTooLarge = error !== undefined && content !== undefined;
    return { kind: "loaded", content, isTooLarge, value, hint, loadMs };
  }

  /**
   * Encodes a value. Returns an error if it cannot be stored: with the content if it is too large,
   * without content if it cannot be encoded.
   */
  #encode(value: unknown, coordinate: string): { content?: Content; error?: CachedError } {
    try {
      const content = this.#packing.encode(value);
      const bytes = this.#packing.excessBytes(content);
      if (bytes === undefined) return { content };
      const error = new CachedError(
        "CACHED_VALUE_TOO_LARGE",
        `\`${coordinate}\`: the value is not cached: expected at most ${this.#packing.maxValueBytes} bytes, got ${bytes}; return less data, or raise \`maxValueBytes\``,
        { coordinate },
      );
      return { content, error };
    } catch (cause) {
      const actual = cause instanceof Unstorable ? cause.message : "a value that the codec could not encode";
      const error = new CachedError(
        "CACHED_VALUE_UNSERIALIZABLE",
        `\`${coordinate}\`: the value is not cached: expected plain data, Date, BigInt, Map, Set or Buffer, got ${actual}; return plain data, or declare the class in createCache({ types })`,
        { coordinate, cause },
      );
      return { error };
    }
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
        resolve({ kind: "failed", error, loadMs: this.#timeoutMs });
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
