import type { Clock } from "../clock.js";
import type { Reading, Store, TagVersion } from "../store/store.js";
import type { ReadResult } from "./read-result.js";
import type { ReadRequest } from "./request.js";

/** Those who asked together, and what they are told. */
interface PendingRead {
  readonly requests: readonly ReadRequest[];
  told(readResults: Promise<readonly ReadResult[]>): void;
}

/**
 * Reads: all keys and tags that are asked for in one tick of this process, by whatever request, are one read of the store. Who asks while a
 * read is under way belongs to the next one, so nobody is told what was looked up before he asked.
 * Requests of one tick for the same key under the same tags share a readResult. There is one promise for all that ask together, not one for each:
 * this is the path of every hit.
 */
export class TickReads {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #mark: () => number;
  #waiting: PendingRead[] = [];

  /** `mark` is the place of the near cache's last change. */
  constructor(store: Store, clock: Clock, mark: () => number) {
    this.#store = store;
    this.#clock = clock;
    this.#mark = mark;
  }

  /** In the order and length of `requests`. Rejects as the store's `read` does. */
  look(requests: readonly ReadRequest[]): Promise<readonly ReadResult[]> {
    if (requests.length === 0) return NO_RESULTS;
    if (this.#waiting.length === 0) this.#clock.afterTick(() => this.#flush());
    return new Promise((resolve) => {
      this.#waiting.push({ requests, told: resolve });
    });
  }

  #flush(): void {
    const pending = this.#waiting;
    this.#waiting = [];
    const read = this.#read(pending);
    for (const { requests, told } of pending) told(read.then((resultOf) => requests.map(resultOf)));
  }

  async #read(pending: readonly PendingRead[]): Promise<(request: ReadRequest) => ReadResult> {
    const places = new Map<string, number>();
    const tags = new Map<string, number>();
    for (const { requests } of pending)
      for (const request of requests) {
        if (!places.has(request.key.name)) places.set(request.key.name, places.size);
        for (const tag of request.tags.names) if (!tags.has(tag)) tags.set(tag, tags.size);
      }
    const mark = this.#mark();
    const { readings, tagVersions } = await this.#store.read([...places.keys()], [...tags.keys()]);
    const readResults = new Array<ReadResult | undefined>(places.size);
    return (request) => {
      const place = places.get(request.key.name) as number;
      const known = readResults[place];
      if (known !== undefined && haveSameTags(known.tagNames, request.tags.names)) return known;
      const tagNames = request.tags.names;
      const own = tagNames.length === 0 ? NO_VERSIONS : tagNames.map((tag) => tagVersions[tags.get(tag) as number]);
      const readResult: ReadResult = {
        reading: readings[place] as Reading,
        tagNames,
        tagVersions: own,
        mark,
        sharedMiss: undefined,
      };
      readResults[place] = readResult;
      return readResult;
    };
  }
}

const NO_RESULTS: Promise<readonly ReadResult[]> = Promise.resolve([]);
const NO_VERSIONS: readonly TagVersion[] = [];

const haveSameTags = (some: readonly string[], others: readonly string[]): boolean =>
  some === others || (some.length === others.length && some.every((tag, index) => tag === others[index]));
