import type { Contender, ContenderOptions } from "../contenders/contender.js";
import type { Film } from "../source.js";
import { tagsOf } from "../tags.js";
import { copyJson } from "./copy-json.js";
import { digestKey } from "./digest-key.js";

/** How a reader of several requests for one key in one tick gets its value. */
type Sharing = "parses" | "copies" | "shares";

interface Options {
  readonly sharing: Sharing;
  /** The most keys of one MGET. The rest follows in MGETs of their own. */
  readonly maxKeys?: number;
  /** Tags per key, whose versions are read with the entries and compared. */
  readonly tags?: number;
}

interface Read {
  readonly resolve: (film: Film) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The least that a process-wide cache does on a hit: one MGET for all keys of a tick, with digests as keys, and one
 * promise per read. No freshness, no events, no protection.
 */
class TickReader {
  readonly #options: ContenderOptions & Options;
  /** The reads of this tick, by id. */
  #groups = new Map<string, Read[]>();

  constructor(options: ContenderOptions & Options) {
    this.#options = options;
  }

  readonly read = (id: string): Promise<Film> =>
    new Promise((resolve, reject) => {
      const group = this.#groups.get(id);
      if (group !== undefined) {
        group.push({ resolve, reject });
        return;
      }
      if (this.#groups.size === 0) void Promise.resolve().then(() => process.nextTick(this.#flush));
      this.#groups.set(id, [{ resolve, reject }]);
    });

  readonly #flush = (): void => {
    const ids = [...this.#groups.keys()];
    const groups = [...this.#groups.values()];
    this.#groups = new Map();
    const { maxKeys = ids.length } = this.#options;
    for (let at = 0; at < ids.length; at += maxKeys)
      void this.#readGroups(ids.slice(at, at + maxKeys), groups.slice(at, at + maxKeys));
  };

  async #readGroups(ids: readonly string[], groups: readonly (readonly Read[])[]): Promise<void> {
    const { client, prefix, source, policy, tags = 0 } = this.#options;
    try {
      const names = ids.map((id) => digestKey(prefix, id));
      const wanted = tags === 0 ? [] : ids.map((id) => tagsOf(id, tags));
      const tagNames = [...new Set(wanted.flat())];
      const texts = await client.mget(names.concat(tagNames.map((tag) => `${prefix}:tag:${tag}`)));
      const versionOf = new Map(tagNames.map((tag, nth) => [tag, texts[names.length + nth] ?? "0"]));
      const signatures = wanted.map((own) => `${own.map((tag) => versionOf.get(tag)).join()}\n`);
      const bodies = tags === 0 ? texts : names.map((_, nth) => bodyOf(texts[nth] ?? null, signatures[nth]));
      if (bodies.includes(null)) {
        const missing = [...ids.keys()].filter((nth) => bodies[nth] === null);
        const loaded = await source.load(missing.map((nth) => ids[nth] as string));
        const writes = client.pipeline();
        for (const [at, nth] of missing.entries()) {
          const body = JSON.stringify(loaded[at]);
          bodies[nth] = body;
          writes.set(names[nth] as string, `${signatures[nth] ?? ""}${body}`, "EX", policy.maxAge);
        }
        writes.exec().catch(() => undefined);
      }
      for (const [nth, reads] of groups.entries()) this.#answer(reads, bodies[nth] as string);
    } catch (error) {
      for (const { reject } of groups.flat()) reject(error);
    }
  }

  #answer(reads: readonly Read[], body: string): void {
    const { sharing } = this.#options;
    const film = JSON.parse(body) as Film;
    for (const [nth, { resolve }] of reads.entries())
      resolve(
        nth === 0 || sharing === "shares" ? film : sharing === "copies" ? copyJson(film) : (JSON.parse(body) as Film),
      );
  }
}

/** Returns the JSON in an entry, or null if there is none under this signature. */
const bodyOf = (text: string | null, signature = ""): string | null =>
  text?.startsWith(signature) ? text.slice(signature.length) : null;

const tickReader = (name: string, options: Options): Contender => ({
  name,
  kind: "limit",
  module: "limits/tick-reader",
  open: (resources) => {
    const reader = new TickReader({ ...resources, ...options });
    return {
      request: () => reader.read,
      invalidate: (id) => resources.client.del(digestKey(resources.prefix, id)),
    };
  },
});

export const oneMget: Contender = tickReader("bare: one MGET a tick", { sharing: "parses" });
export const copyingReader: Contender = tickReader("bare: parse once, copy", { sharing: "copies" });
export const sharingReader: Contender = tickReader("bare: parse once, share", { sharing: "shares" });
/** MGETs of 250 keys, so that the event loop turns between the replies. */
export const chunkedReader: Contender = tickReader("bare: MGETs of 250 keys", { sharing: "parses", maxKeys: 250 });
/** The versions of the tags are part of the same MGET. */
export const taggedReaders: readonly Contender[] = [1, 2, 5, 10].map((tags) =>
  tickReader(`bare: one MGET a tick, ${tags} tag${tags === 1 ? "" : "s"}`, { sharing: "parses", tags }),
);
