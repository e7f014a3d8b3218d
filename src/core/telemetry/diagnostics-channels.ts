import { type Channel, channel } from "node:diagnostics_channel";
import { errorTypeOf } from "./error-type.js";
import type { CacheEvent } from "./events.js";

/**
 * The diagnostics channels of Node.js on which one cache publishes its events, one for each event. The channels
 * belong to the process; the cache keeps those that it has used, since Node.js forgets a channel nobody refers to.
 */
export class DiagnosticsChannels {
  readonly #prefix: string;
  readonly #channels = new Map<string, Channel>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  of(event: CacheEvent["name"]): Channel {
    let known = this.#channels.get(event);
    if (known === undefined) {
      known = channel(`graphql-cached.${event}`);
      this.#channels.set(event, known);
    }
    return known;
  }

  /**
   * Publishes the event with the prefix of its cache. The errors of sources may contain user data, so a message
   * has `errorType` instead of `error`.
   */
  publish(event: CacheEvent): void {
    const own = this.of(event.name);
    if (!own.hasSubscribers) return;
    const { error, ...rest } = event as CacheEvent & { readonly error?: unknown };
    own.publish({ prefix: this.#prefix, ...rest, ...(error === undefined ? {} : { errorType: errorTypeOf(error) }) });
  }
}
