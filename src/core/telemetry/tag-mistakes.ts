import type { CachedError } from "../base/errors.js";
import type { Channel } from "./channel.js";

/** Publishes each mistake in a tag once, by its message. */
export class TagMistakes {
  readonly #channel: Channel;
  readonly #reported = new Set<string>();

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  /** `coordinate`: null if the tag was passed to a call. */
  report(coordinate: string | null, error: CachedError): void {
    if (this.#reported.has(error.message) || this.#reported.size >= MAX_REPORTED) return;
    this.#reported.add(error.message);
    this.#channel.publish({ name: "tag.mistaken", coordinate, digest: "", error });
  }
}

/** How many different mistakes are reported. */
const MAX_REPORTED = 1_000;
