/** The client of a request, which can hang up. */
export interface Client {
  readonly signal: AbortSignal;
  readonly hangUp: () => void;
}

export function client(): Client {
  const controller = new AbortController();
  return { signal: controller.signal, hangUp: () => controller.abort(new Error(HUNG_UP)) };
}

export const HUNG_UP = "the client has hung up";

/** The option `loads.abortSignal` of a cache whose contexts have the signals of their clients. */
export const abortSignal = ({ signal }: { readonly signal?: AbortSignal }): AbortSignal | undefined => signal;
