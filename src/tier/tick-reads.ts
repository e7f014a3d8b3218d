import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.js";
import { type ResultTags, readTagNames } from "../store/body.js";
import type { Reading, Store, TagVersion } from "../store/store.js";
import type { ControlRecord } from "./control-record.js";
import type { ReadResult, RememberedTags } from "./read-result.js";
import type { ReadRequest } from "./request.js";
import { createTagVersions } from "./tag-versions.js";

/** The requests of one `read` call. */
interface PendingRead {
  readonly requests: readonly ReadRequest[];
  settle(readResults: Promise<readonly ReadResult[]>): void;
}

/** Bounds of the remembered tags: how many names in all, and how many of one value. */
const MAX_REMEMBERED_NAMES = 100_000;
const MAX_NAMES_OF_VALUE = 5_000;

/**
 * Reads all keys and tags that are requested in one tick of this process, by any request, with one
 * store read. A call made while a read is running belongs to the next one, so its results are never
 * older than the call.
 *
 * Requests of one tick for the same key and tags share a ReadResult. Each call has one promise, not
 * one for each request, because every hit takes this path.
 *
 * Which tags were derived from a value is known only once it is read, and their versions would need a
 * second read. So the tags of values that this process has read are remembered, and read ahead
 * together with the key. They count only if the value that is then read has exactly these tags.
 */
export class TickReads {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #control: ControlRecord;
  readonly #changeCount: () => number;
  readonly #loadTimeoutMs: number;
  #pending: PendingRead[] = [];
  /** The tags derived from values, by key. */
  readonly #remembered = new LRUCache<string, RememberedTags>({
    maxSize: MAX_REMEMBERED_NAMES,
    sizeCalculation: ({ names }) => names.length,
  });

  /** `changeCount` returns `NearCache.changeCount`. */
  constructor(
    store: Store,
    clock: Clock,
    control: ControlRecord,
    changeCount: () => number,
    { loadTimeoutMs }: { readonly loadTimeoutMs: number },
  ) {
    this.#store = store;
    this.#loadTimeoutMs = loadTimeoutMs;
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

  /** Remembers the tags of a value, to read them together with its key from now on. */
  remember({ key, tags }: ReadRequest, { list }: ResultTags): void {
    if (tags.namesOf === undefined || this.#remembered.peek(key.name)?.list.equals(list) === true) return;
    const names = readTagNames(list);
    // A copy: the list is part of a reply of the store, which would be kept as a whole.
    if (names.length <= MAX_NAMES_OF_VALUE) this.#remembered.set(key.name, { list: Buffer.from(list), names });
    else this.#remembered.delete(key.name);
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
    const remembered = new Map<string, RememberedTags>();
    const addTags = (names: readonly string[]): void => {
      for (const tag of names) if (!tagIndexes.has(tag)) tagIndexes.set(tag, tagIndexes.size);
    };
    for (const { requests } of pending)
      for (const request of requests) {
        const { name } = request.key;
        addTags(request.tags.names);
        if (keyIndexes.has(name)) continue;
        keyIndexes.set(name, keyIndexes.size);
        const tags = request.tags.namesOf === undefined ? undefined : this.#remembered.get(name);
        if (tags === undefined) continue;
        remembered.set(name, tags);
        addTags(tags.names);
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
        const all = pending.flatMap(({ requests }) => requests);
        const areMissing = (request: ReadRequest): boolean =>
          request.tags.names.some((tag) => tagVersions[tagIndexes.get(tag) as number] === undefined);
        const [isPrepared, created] = await Promise.all([
          this.#control.prepare(
            read.controlVersion,
            all.map(({ key }) => key),
            sentAt,
          ),
          createTagVersions(this.#store, all.filter(areMissing), this.#loadTimeoutMs),
        ]);
        tagVersions = tagVersions.map((version, index) => version ?? created.get(tags[index] as string));
        if (!isPrepared) readings = readings.map(() => UNPREPARED);
      }
      this.#control.renew(firstRead.kind === "read" ? firstRead.now : 0);
      if (readings.some((reading) => reading.kind === "read")) this.#control.settle(changesReported);
    }
    const readResults = new Array<ReadResult | undefined>(keyIndexes.size);
    const versionsOf = (names: readonly string[]): readonly TagVersion[] =>
      names.map((tag) => tagVersions[tagIndexes.get(tag) as number]);
    return (request) => {
      const keyIndex = keyIndexes.get(request.key.name) as number;
      const tagNames = request.tags.names;
      const shared = readResults[keyIndex];
      if (shared !== undefined && haveSameTags(shared.tagNames, tagNames)) return shared;
      const tags = remembered.get(request.key.name);
      const readResult: ReadResult = {
        reading: readings[keyIndex] as Reading,
        tagNames,
        tagVersions: tagNames.length === 0 ? NO_VERSIONS : versionsOf(tagNames),
        ahead: tags === undefined ? undefined : { tags, versions: versionsOf(tags.names) },
        changeCount,
        sharedMiss: undefined,
      };
      readResults[keyIndex] = readResult;
      return readResult;
    };
  }

  /** Returns the versions of tags, with new ones where they are missing. */
}

/** The control record could not be read, so no entry can be judged. */
const UNPREPARED: Reading = { kind: "failed", error: new Error("the control record could not be read") };
const NO_RESULTS: Promise<readonly ReadResult[]> = Promise.resolve([]);
const NO_VERSIONS: readonly TagVersion[] = [];

const haveSameTags = (some: readonly string[], others: readonly string[]): boolean =>
  some === others || (some.length === others.length && some.every((tag, index) => tag === others[index]));
