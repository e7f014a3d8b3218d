import type { Clock } from "../base/clock.js";
import { CachedError, messageOf } from "../base/errors.js";
import type { Channel } from "../telemetry/channel.js";
import { Breaker } from "./breaker.js";
import type { ConnectionFailure } from "./store.js";

/** How this process reaches one node of a store. */
export class NodeState {
  readonly breaker: Breaker;
  /** By operation. */
  readonly failing = new Map<string, { readonly at: number; readonly refusal: string | undefined }>();
  /** On the clock of this process. */
  lastFailure: { readonly at: number; readonly message: string } | undefined = undefined;

  constructor(
    readonly node: string,
    private readonly clock: Clock,
  ) {
    this.breaker = new Breaker(clock, undefined, MAX_PAUSE_MS);
  }

  failed(operation: string, error: CachedError, isRefused: boolean): void {
    const at = this.clock.now();
    this.lastFailure = { at, message: error.message };
    const refusal = isRefused ? messageOf(error.cause) : this.failing.get(operation)?.refusal;
    this.failing.set(operation, { at, refusal });
  }

  /**
   * Records the success of an operation. Returns whether all that has failed works again: a server
   * without memory refuses writes and replies to reads, so it has not recovered with each of them.
   */
  recover(operation: string): boolean {
    this.failing.delete(operation);
    const now = this.clock.now();
    for (const { at } of this.failing.values()) if (now - at < FAILING_MS) return false;
    this.failing.clear();
    return true;
  }

  refusals(): readonly Refusal[] {
    const since = this.clock.now() - FAILING_MS;
    return [...this.failing].flatMap(([operation, { at, refusal }]) =>
      refusal === undefined || at <= since ? [] : [{ node: this.node, operation, message: refusal }],
    );
  }
}

/** How long a node counts as failing if the operation that has failed is not called again. */
const FAILING_MS = 30_000;
/** A probe costs the requests of one tick a time budget. */
const MAX_PAUSE_MS = 1_000;

export type Refusal = Readonly<Record<"node" | "operation" | "message", string>>;

/**
 * The connections that a store has opened for itself and that cannot be used. No operation fails
 * for them, so without this nobody would notice. Published once for each cause: after new
 * credentials, all of them fail for the same one.
 */
export class OwnConnections {
  readonly #failures = new Map<string, ConnectionFailure>();

  constructor(private readonly channel: Channel) {}

  get failures(): readonly ConnectionFailure[] {
    return [...this.#failures.values()];
  }

  report(failure: ConnectionFailure): void {
    const { use, node, error } = failure;
    const id = `${use} ${node}`;
    if (error === undefined) {
      if (this.#failures.delete(id) && this.#failures.size === 0)
        this.channel.publish({ name: "connection.recovered" });
      return;
    }
    const isPublished = this.failures.some((other) => other.error?.message === error.message);
    this.#failures.set(id, failure);
    if (isPublished) return;
    const message = `store: the connection for ${use} cannot be used: ${error.message}`;
    const published = new CachedError("CACHED_STORE_UNAVAILABLE", message, { cause: error });
    this.channel.publish({ name: "connection.failed", use, node, error: published });
  }
}
