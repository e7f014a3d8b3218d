import { inertControl, type ResultControl } from "../tier/request/result-control.js";
import { type EnclosingLoad, type PrivateReader, Waiters } from "../tier/request/waiters.js";
import type { BatchCall } from "./loader-options.js";
import type { RequestSignals } from "./request-signals.js";
import type { RequestStates } from "./request-states.js";

export interface CachedLoad {
  readonly waiters: Waiters;
  readonly result: ResultControl;
}

/** One id that has to be loaded. `cached`: undefined for a load without the cache. */
export interface IdLoad<Id> {
  readonly id: Id;
  readonly cached: CachedLoad | undefined;
  readonly enclosing: EnclosingLoad | undefined;
  /** What the value is for, without the cache. */
  readonly reader?: PrivateReader | undefined;
}

/** Loads from the source of one loader, for one context and caller. */
export type Source<Id, Value> = (load: IdLoad<Id>) => Promise<Value>;

/** What a batch function or a cached function gets. Its parts are made when they are asked for. */
export class OwnCall implements BatchCall {
  readonly #of: CallParts;
  #signal: AbortSignal | undefined;
  #results: readonly ResultControl[] | undefined;

  constructor(
    coordinate: string,
    loads: readonly (CachedLoad | undefined)[],
    { signals, requestStates }: Pick<CallParts, "signals" | "requestStates">,
    context: unknown,
  ) {
    this.#of = { coordinate, loads, signals, requestStates, context };
    Object.defineProperties(this, OWN_PROPERTIES);
  }

  get result(): ResultControl {
    return this.results[0] as ResultControl;
  }

  get results(): readonly ResultControl[] {
    const { coordinate, loads } = this.#of;
    this.#results ??= loads.map((load) => load?.result ?? inertControl(coordinate));
    return this.#results;
  }

  /** Asked for by the batch function, so none of the loads has ended yet. */
  get signal(): AbortSignal {
    this.#signal ??= signalOf(this.#of);
    return this.#signal;
  }
}

/** Copies have them. The same for all calls: V8 makes a hidden class for each new accessor. */
const OWN_PROPERTIES = Object.fromEntries(
  (["result", "results", "signal"] as const).map((name) => {
    const accessor = Object.getOwnPropertyDescriptor(OwnCall.prototype, name);
    return [name, { ...accessor, enumerable: true }];
  }),
);

interface CallParts {
  readonly coordinate: string;
  readonly loads: readonly (CachedLoad | undefined)[];
  readonly signals: RequestSignals;
  readonly requestStates: RequestStates;
  readonly context: unknown;
}

/** Loads without the cache are waited for by their request alone. */
function signalOf({ coordinate, loads, signals, requestStates, context }: CallParts): AbortSignal {
  const requestSignal = (): AbortSignal =>
    signals.of(coordinate, requestStates.contextOf(context))?.request[0] ?? new AbortController().signal;
  const cached = loads.filter((load) => load !== undefined);
  if (cached.length === 0) return requestSignal();
  const joined = Waiters.joining(cached, (all, { waiters }) => all.add({ onLeft: (leave) => waiters.onOver(leave) }));
  if (cached.length === loads.length) return joined.signal;
  const controller = new AbortController();
  // No listener before then: it would remain at the signal until the request has ended.
  joined.onGone(() => {
    const signal = requestSignal();
    const abort = (): void => controller.abort(joined.signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
  return controller.signal;
}

/** What DataLoader accepts: an array, or an object that has as many members as its length says. */
export const isArrayLike = (value: unknown): value is ArrayLike<unknown> =>
  typeof value === "object" && value !== null && typeof (value as { length?: unknown }).length === "number";
