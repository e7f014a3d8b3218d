import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import type { Clock } from "../clock.js";
import { type Content, Unstorable } from "../codec/codec.js";
import type { Packing } from "../codec/packing.js";
import { CachedError } from "../errors.js";
import type { ResponseHint } from "../store/body.js";
import type { Channel } from "../telemetry/channel.js";
import type { ReadRequest } from "./request.js";
import { isRefusal, type SourceGuard } from "./source-guard.js";

/** What a load came to. `content` is undefined where the value cannot be stored; then `value` is the source's own object. */
export type Loaded =
  | {
      readonly kind: "loaded";
      readonly content: Content | undefined;
      readonly value: unknown;
      readonly hint: ResponseHint | undefined;
      readonly loadMs: number;
    }
  | { readonly kind: "failed"; readonly error: unknown; readonly loadMs: number };

/** A load under way: what its readers get, and what it came to in the end, which is later where they were not made to wait for it. Neither rejects. */
export interface RunningLoad {
  readonly forReaders: Promise<Loaded>;
  readonly inTheEnd: Promise<Loaded>;
}

/** Runs loads: measures them, bounds what readers wait, and knows which keys the code that is running now is a load of. */
export class Loads {
  readonly #clock: Clock;
  readonly #channel: Channel;
  readonly #packing: Packing;
  readonly #guard: SourceGuard;
  readonly #timeoutMs: number;
  readonly #nesting = new AsyncLocalStorage<ReadonlySet<string>>();
  #running = 0;
  /** Where refreshes run: outside of every request's asynchronous context. */
  readonly #outside = new AsyncResource("graphql-cached.refresh");

  constructor(clock: Clock, channel: Channel, packing: Packing, guard: SourceGuard, timeoutMs: number) {
    this.#clock = clock;
    this.#channel = channel;
    this.#packing = packing;
    this.#guard = guard;
    this.#timeoutMs = timeoutMs;
  }

  /** The keys whose loads the caller is part of; empty outside of loads. */
  held(): ReadonlySet<string> {
    return this.#nesting.getStore() ?? NONE;
  }

  /** Begins at once: all loads of one tick reach their source in that tick. */
  run(request: ReadRequest, isRefresh: boolean): RunningLoad {
    return isRefresh ? this.#outside.runInAsyncScope(() => this.#run(request, true)) : this.#run(request, false);
  }

  #run(request: ReadRequest, isRefresh: boolean): RunningLoad {
    const { coordinate, digest, name } = request.key;
    let startedAt = this.#clock.now();
    const load = async (): Promise<unknown> => {
      startedAt = this.#clock.now();
      this.#channel.publish({ name: "load.started", coordinate, digest, isRefresh });
      return request.load();
    };
    const outer = this.held();
    this.#running++;
    const inTheEnd = this.#nesting
      .run(new Set([...outer, name]), () => this.#guard.run(coordinate, outer.size > 0, load))
      .then(
        (value): Loaded => this.#finish(request, value, this.#clock.now() - startedAt),
        (error: unknown): Loaded => {
          this.#channel.publish({ name: isRefusal(error) ? "load.refused" : "load.failed", coordinate, digest, error });
          return { kind: "failed", error, loadMs: this.#clock.now() - startedAt };
        },
      );
    void inTheEnd.then(() => this.#ended());
    return { inTheEnd, forReaders: this.#withinTime(inTheEnd, coordinate) };
  }

  /** While an AsyncLocalStorage is in use, Node 20 and 22 slow every promise of the process down; with no load running, nobody is inside one. */
  #ended(): void {
    this.#running--;
    if (this.#running === 0) this.#nesting.disable();
  }

  #finish(request: ReadRequest, value: unknown, loadMs: number): Loaded {
    const { coordinate, digest } = request.key;
    this.#channel.publish({ name: "load.finished", coordinate, digest, loadMs });
    const hint = request.hintOf?.();
    const encoded = this.#encode(value, coordinate);
    if (!(encoded instanceof CachedError)) return { kind: "loaded", content: encoded, value, hint, loadMs };
    this.#channel.publish({ name: "value.refused", coordinate, digest, error: encoded });
    return { kind: "loaded", content: undefined, value, hint, loadMs };
  }

  /** The error says why the value cannot be stored. */
  #encode(value: unknown, coordinate: string): Content | CachedError {
    try {
      const content = this.#packing.encode(value);
      const bytes = this.#packing.excessBytes(content);
      if (bytes === undefined) return content;
      return new CachedError(
        "CACHED_VALUE_TOO_LARGE",
        `the value of \`${coordinate}\` is not cached: at most ${this.#packing.maxValueBytes} bytes were expected (\`maxValueBytes\`), ${bytes} came; return less, or raise the limit`,
        { coordinate },
      );
    } catch (cause) {
      const what = cause instanceof Unstorable ? `${cause.message} came` : "it could not be written";
      return new CachedError(
        "CACHED_VALUE_UNSERIALIZABLE",
        `the value of \`${coordinate}\` is not cached: plain data, Date, BigInt, Map, Set or Buffer was expected, ${what}; return plain data, or say in createCache({ types }) how the class is stored`,
        { coordinate, cause },
      );
    }
  }

  #withinTime(load: Promise<Loaded>, coordinate: string): Promise<Loaded> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(this.#timeoutMs, () => {
        const error = new CachedError(
          "CACHED_LOAD_TIMEOUT",
          `the load of \`${coordinate}\` was expected to end within ${this.#timeoutMs} ms (\`loadTimeoutMs\`) and is still running`,
          { coordinate },
        );
        resolve({ kind: "failed", error, loadMs: this.#timeoutMs });
      });
      void load.then((loaded) => {
        cancel();
        resolve(loaded);
      });
    });
  }
}

const NONE: ReadonlySet<string> = new Set();
