import type { Clock } from "../clock.js";
import type { Nonce, Reading, Store } from "../store/store.js";
import type { ReadRequest } from "./request.js";
import type { Sight } from "./sight.js";

/** Those who asked together, and what they are told. */
interface Party {
  readonly requests: readonly ReadRequest[];
  told(sights: Promise<readonly Sight[]>): void;
}

/**
 * Reads: all keys and tags that are asked for in one tick of this process, by whatever request, are one read of the store. Who asks while a
 * read is under way belongs to the next one, so nobody is told what was looked up before he asked.
 * Requests of one tick for the same key under the same tags share a sight. There is one promise for all that ask together, not one for each:
 * this is the path of every hit.
 */
export class TickReads {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #mark: () => number;
  #waiting: Party[] = [];

  /** `mark` is the place of the near cache's last change. */
  constructor(store: Store, clock: Clock, mark: () => number) {
    this.#store = store;
    this.#clock = clock;
    this.#mark = mark;
  }

  /** In the order and length of `requests`. Rejects as the store's `read` does. */
  look(requests: readonly ReadRequest[]): Promise<readonly Sight[]> {
    if (requests.length === 0) return NO_SIGHTS;
    if (this.#waiting.length === 0) this.#clock.afterTick(() => this.#flush());
    return new Promise((resolve) => {
      this.#waiting.push({ requests, told: resolve });
    });
  }

  #flush(): void {
    const parties = this.#waiting;
    this.#waiting = [];
    const read = this.#read(parties);
    for (const { requests, told } of parties) told(read.then((sightOf) => requests.map(sightOf)));
  }

  async #read(parties: readonly Party[]): Promise<(request: ReadRequest) => Sight> {
    const places = new Map<string, number>();
    const tags = new Map<string, number>();
    for (const { requests } of parties)
      for (const request of requests) {
        if (!places.has(request.key.name)) places.set(request.key.name, places.size);
        for (const tag of request.tags.names) if (!tags.has(tag)) tags.set(tag, tags.size);
      }
    const mark = this.#mark();
    const { readings, nonces } = await this.#store.read([...places.keys()], [...tags.keys()]);
    const sights = new Array<Sight | undefined>(places.size);
    return (request) => {
      const place = places.get(request.key.name) as number;
      const known = sights[place];
      if (known !== undefined && haveSameTags(known.tagNames, request.tags.names)) return known;
      const tagNames = request.tags.names;
      const own = tagNames.length === 0 ? NO_NONCES : tagNames.map((tag) => nonces[tags.get(tag) as number]);
      const sight: Sight = { reading: readings[place] as Reading, tagNames, nonces: own, mark, pursuit: undefined };
      sights[place] = sight;
      return sight;
    };
  }
}

const NO_SIGHTS: Promise<readonly Sight[]> = Promise.resolve([]);
const NO_NONCES: readonly Nonce[] = [];

const haveSameTags = (some: readonly string[], others: readonly string[]): boolean =>
  some === others || (some.length === others.length && some.every((tag, index) => tag === others[index]));
