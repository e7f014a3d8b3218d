import type { Clock } from "./clock.js";
import type { Packing } from "./codec/packing.js";
import type { KeySpace } from "./keys/key.js";
import type { ContextWatch } from "./loader/context-watch.js";
import type { RequestScopes } from "./loader/request-scope.js";
import type { PolicySettings } from "./policy/policy.js";
import type { Store } from "./store/store.js";
import type { Channel } from "./telemetry/channel.js";
import type { Counters } from "./telemetry/counters.js";
import type { Invalidation } from "./tier/invalidate.js";
import type { Leases } from "./tier/leases.js";
import type { ReadThrough } from "./tier/read-through.js";
import type { ReadRequest } from "./tier/request.js";

/** Makes a request from what `ReadRequest.input` gave. Errors: those of making a key. */
export type RequestFactory = (input: unknown, context: never) => ReadRequest;

/** What a cache is made of, for the rooms that work on a handle: directive, inspection and the edges. */
export interface CacheParts {
  readonly tier: ReadThrough;
  readonly leases: Leases;
  readonly invalidation: Invalidation;
  readonly scopes: RequestScopes;
  readonly keys: KeySpace;
  readonly store: Store;
  readonly clock: Clock;
  readonly packing: Packing;
  readonly channel: Channel;
  readonly counters: Counters;
  readonly profiles: Readonly<Record<string, PolicySettings>>;
  readonly defaults: PolicySettings;
  /** How the requests of a field or loader are made again from their `input`, in a worker that takes refreshes over. */
  readonly requestFactories: Map<string, RequestFactory>;
  readonly identify: ((context: never) => unknown) | undefined;
  /** Undefined where nobody looks at what public loads read of their contexts. */
  readonly contextWatch: ContextWatch | undefined;
  /** Directives that say a field is not for everybody. */
  readonly authDirectives: readonly string[];
  /** Resolves once loads and refreshes under way have been stored, or the time for it is over. */
  drain(): Promise<void>;
}

/** Where a handle keeps its parts. Not for users: what is not in a door does not exist. */
export const PARTS: unique symbol = Symbol("graphql-cached.parts");

export interface HasParts {
  /** @internal */
  readonly [PARTS]: CacheParts;
}
