import type { Clock } from "../clock.js";
import type { Reading, Store, TagVersion } from "../store/store.js";
import type { ControlRecord } from "./control-record.js";
import { MIN_TAG_TTL_MS } from "./entry-builder.js";
import type { ReadResult } from "./read-result.js";
import type { ReadRequest } from "./request.js";

/** The requests of one `read` call. */
interface PendingRead {
  readonly requests: readonly ReadRequest[];
  settle(readResults: Promise<readonly ReadResult[]>): void;
}

/**
 * Reads all keys and tags that are requested in one tick of this process, by any request, with one
 * store read. A call made while a read is running belongs to the next one, so its results are never
 * older than the call.
 *
 * Requests of one tick for the same key and tags share a ReadResult. Each call has one promise, not
 * one for each request, because every hit takes this path.
 */
export class TickReads {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #control: ControlRecord;
  readonly #changeCount: () => number;
  #pending: PendingRead[] = [];

  /** `changeCount` returns `NearCache.changeCount`. */
  constructor(store: Store, clock: Clock, control: ControlRecord, changeCount: () => number) {
    this.#store = store;
    this.#clock = clock;
    this.#control = control;
    this.#changeCount = changeCount;
  }

  /** Returns results in the order and length of `requests`. Rejects if the store's `read` does. */
  read(requests: readonly ReadRequest[]): Promise<readonly ReadResult[]> {
    if (requests.length === 0) return NO_RESULTS;
    if (this.#pending.length === 0) this.#clock.afterTick(() => this.#flush());
    return new Promise((resolve) => {
      this.#pending.push({ requests, settle: resolve });
    });
  }

  #flush(): void {
    const pending = this.#pending;
    this.#pending = [];
    const reading = this.#readAll(pending);
    for (const { requests, settle } of pending) settle(reading.then((resultOf) => requests.map(resultOf)));
  }

  async #readAll(pending: readonly PendingRead[]): Promise<(request: ReadRequest) => ReadResult> {
    const keyIndexes = new Map<string, number>();
    const tagIndexes = new Map<string, number>();
    for (const { requests } of pending)
      for (const request of requests) {
        if (!keyIndexes.has(request.key.name)) keyIndexes.set(request.key.name, keyIndexes.size);
        for (const tag of request.tags.names) if (!tagIndexes.has(tag)) tagIndexes.set(tag, tagIndexes.size);
      }
    const changeCount = this.#changeCount();
    const { changesReported } = this.#control;
    const tags = [...tagIndexes.keys()];
    const sentAt = this.#clock.now();
    const read = await this.#store.read([...keyIndexes.keys()], tags);
    let { readings, tagVersions } = read;
    const firstRead = readings.find((reading) => reading.kind === "read");
    if (firstRead !== undefined) {
      if (!this.#control.isReady(read.controlVersion)) {
        // Tags without versions get them now rather than with the lease request, so that a request
        // waits for three round trips at most.
        const keys = pending.flatMap(({ requests }) => requests.map(({ key }) => key));
        const [isPrepared, created] = await Promise.all([
          this.#control.prepare(read.controlVersion, keys, sentAt),
          this.#createMissing(tags, tagVersions),
        ]);
        tagVersions = created;
        if (!isPrepared) readings = readings.map(() => UNPREPARED);
      }
      this.#control.renew(firstRead.kind === "read" ? firstRead.now : 0);
      if (readings.some((reading) => reading.kind === "read")) this.#control.settle(changesReported);
    }
    const readResults = new Array<ReadResult | undefined>(keyIndexes.size);
    return (request) => {
      const keyIndex = keyIndexes.get(request.key.name) as number;
      const tagNames = request.tags.names;
      const shared = readResults[keyIndex];
      if (shared !== undefined && haveSameTags(shared.tagNames, tagNames)) return shared;
      const readResult: ReadResult = {
        reading: readings[keyIndex] as Reading,
        tagNames,
        tagVersions:
          tagNames.length === 0 ? NO_VERSIONS : tagNames.map((tag) => tagVersions[tagIndexes.get(tag) as number]),
        changeCount,
        sharedMiss: undefined,
      };
      readResults[keyIndex] = readResult;
      return readResult;
    };
  }

  /** Returns the versions of tags, with new ones where they are missing. */
  async #createMissing(tags: readonly string[], tagVersions: readonly TagVersion[]): Promise<readonly TagVersion[]> {
    const missing = tags.filter((_, index) => tagVersions[index] === undefined);
    if (missing.length === 0) return tagVersions;
    const created = await this.#store.ensureTags(missing, MIN_TAG_TTL_MS).catch((): string[] => []);
    const versionOf = new Map(missing.map((tag, index) => [tag, created[index]]));
    return tagVersions.map((version, index) => version ?? versionOf.get(tags[index] as string));
  }
}

/** The control record could not be read, so no entry can be judged. */
const UNPREPARED: Reading = { kind: "failed", error: new Error("the control record could not be read") };
const NO_RESULTS: Promise<readonly ReadResult[]> = Promise.resolve([]);
const NO_VERSIONS: readonly TagVersion[] = [];

const haveSameTags = (some: readonly string[], others: readonly string[]): boolean =>
  some === others || (some.length === others.length && some.every((tag, index) => tag === others[index]));
