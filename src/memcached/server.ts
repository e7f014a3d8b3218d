import { hash } from "node:crypto";
import type { Clock, Random } from "../clock.js";
import { asError } from "../store/answers.js";
import { type Content, dropAtOf, readContent, writeContent } from "./content.js";
import { isLostRace, type MemcachedClient, readItems, readServerSeconds, type StoredItem } from "./memcached-client.js";
import { ServerClock, type ServerTime } from "./server-clock.js";

/** What is to become of one name: left as it is, changed to `to`, or gone where that is undefined; and what is answered once it has. */
export type Change<Answer> = { readonly answer: Answer } & (
  | { readonly kind: "keep" }
  | { readonly kind: "put"; readonly to: Exclude<Content, { kind: "unknown-format" }> | undefined }
);

/** Decides on one name. Pure but for chance: whoever loses a race decides once more on what is there then. */
export type Decide<Answer> = (index: number, content: Content | undefined, time: ServerTime) => Change<Answer>;

const MAX_NAME_BYTES = 250;
/** Losing so many races means that a name is changed without end; each race has a winner. */
const MAX_ROUNDS = 16;
const PAUSE_MS = 3;
/** The server takes this for a time long past: what is written so is gone at once, and only if nobody has written since. */
const GONE = -1;

/** One memcached server, where every change is a read, a decision and a write that is refused if somebody wrote in between. */
export class Server {
  readonly #client: MemcachedClient;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #time: ServerClock;

  constructor(client: MemcachedClient, clock: Clock, random: Random) {
    this.#client = client;
    this.#clock = clock;
    this.#random = random;
    this.#time = new ServerClock(async () => readServerSeconds(await client.cmd("stats")), clock);
  }

  /** What is at `names`, in one trip. */
  async read(names: readonly string[]): Promise<{ contents: readonly (Content | undefined)[]; now: number }> {
    const items = await this.#see(names);
    const { now } = this.#time.time();
    return { contents: items.map((item) => readContent(item?.bytes, now)), now };
  }

  /** Answers in the order of `names`, an Error for a name whose change was not made, or is not known to be. Never rejects. */
  async change<Answer>(names: readonly string[], decide: Decide<Answer>): Promise<readonly (Answer | Error)[]> {
    const answers = new Array<Answer | Error>(names.length);
    let left = names.map((_, index) => index);
    try {
      for (let round = 0; left.length > 0; round++) {
        if (round === MAX_ROUNDS) throw new Error("others have changed it again and again");
        // Those who meet a second time would meet a third: they part.
        if (round > 1) await this.#pause(this.#random() * PAUSE_MS * round);
        const items = await this.#see(left.map((index) => names[index] as string));
        const time = this.#time.time();
        const isDone = await Promise.all(
          left.map(async (index, nth) => {
            const item = items[nth];
            const change = decide(index, readContent(item?.bytes, time.now), time);
            try {
              if (change.kind === "put" && !(await this.#write(names[index] as string, item, change.to))) return false;
              answers[index] = change.answer;
            } catch (error) {
              answers[index] = asError(error);
            }
            return true;
          }),
        );
        left = left.filter((_, nth) => isDone[nth] !== true);
      }
    } catch (error) {
      for (const index of left) answers[index] = asError(error);
    }
    return answers;
  }

  async #see(names: readonly string[]): Promise<readonly (StoredItem | undefined)[]> {
    const wireNames = names.map(wireName);
    const [answer] = await Promise.all([this.#client.gets([...new Set(wireNames)]), this.#time.ready()]);
    const items = readItems(answer);
    return wireNames.map((name) => items.get(name));
  }

  /** Answers whether nobody else came first. */
  async #write(
    name: string,
    seen: StoredItem | undefined,
    to: Exclude<Content, { kind: "unknown-format" }> | undefined,
  ): Promise<boolean> {
    const bytes = to === undefined ? Buffer.alloc(0) : writeContent(to);
    const lifetime = to === undefined ? GONE : expiryOf(dropAtOf(to));
    try {
      if (seen !== undefined) await this.#client.cas(wireName(name), bytes, { lifetime, casUniq: seen.casUniq });
      else if (to !== undefined) await this.#client.add(wireName(name), bytes, { lifetime });
      return true;
    } catch (error) {
      if (isLostRace(error)) return false;
      throw error;
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#clock.after(ms, resolve));
  }
}

/** An instant in the server's own seconds, since a number of seconds from now would count from whenever it arrives; never early. 0 is never. */
const expiryOf = (dropAt: number): number => (dropAt >= Number.MAX_SAFE_INTEGER ? 0 : Math.ceil(dropAt / 1000) + 1);

/** The server takes 250 bytes without spaces or control characters; every other name goes by its digest. */
const wireName = (name: string): string =>
  name.length <= MAX_NAME_BYTES && /^[!-~]+$/.test(name) ? name : `graphql-cached:${hash("sha256", name, "base64url")}`;
