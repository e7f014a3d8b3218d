/** How often one key was read: at least `reads - maxError` times, and at most `reads` times. */
export interface HotKey {
  readonly coordinate: string;
  readonly digest: string;
  readonly reads: number;
  readonly maxError: number;
  /** The canonical input of the key, if this process has read it. Never leaves the process. */
  readonly input?: string | undefined;
}

/** What a summary consists of that is sent to other processes: digests, no inputs. */
export interface HotKeysSummary {
  /** The number of all reads that were counted. */
  readonly reads: number;
  /** A key that is not listed was read at most this many times. */
  readonly floor: number;
  readonly keys: readonly HotKey[];
}

interface Counted {
  readonly coordinate: string;
  readonly digest: string;
  input: string | undefined;
  reads: number;
  maxError: number;
}

/**
 * The keys that are read most, in bounded memory: Space-Saving, which drops the rarest keys in one pass when
 * there are twice as many as it keeps. A key that comes, or comes back, later may have been dropped before,
 * so it begins with what the dropped ones had at most, its error. With k keys kept, no error is larger
 * than reads / (k + 1): each time the floor rises by one, k + 1 keys had one read more than it. The same holds for the
 * sum of several summaries.
 *
 * Source: Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
 * Streams", ICDT 2005; Agarwal et al., "Mergeable Summaries", PODS 2012.
 */
export class HotKeys implements HotKeysSummary {
  readonly #size: number;
  readonly #byKey = new Map<string, Counted>();
  reads = 0;
  floor = 0;

  /** `size`: how many keys are kept. Up to twice as many are counted. */
  constructor(size: number) {
    this.#size = size;
  }

  get keys(): readonly HotKey[] {
    return [...this.#byKey.values()].sort((a, b) => b.reads - a.reads);
  }

  /** Counts one read of a key. */
  add(coordinate: string, digest: string, input?: string): void {
    this.reads++;
    const counted = this.#counted(coordinate, digest, input);
    counted.reads++;
    if (this.#byKey.size > 2 * this.#size) this.#dropBelow(this.#size);
  }

  /** Adds what another summary has counted. */
  merge(other: HotKeysSummary): void {
    const before = this.floor;
    const others = new Set<Counted>();
    for (const { coordinate, digest, input, reads, maxError } of other.keys) {
      const counted = this.#counted(coordinate, digest, input);
      counted.reads += reads;
      counted.maxError += maxError;
      others.add(counted);
    }
    if (other.floor > 0)
      for (const counted of this.#byKey.values()) {
        if (others.has(counted)) continue;
        counted.reads += other.floor;
        counted.maxError += other.floor;
      }
    this.floor = before + other.floor;
    this.reads += other.reads;
    if (this.#byKey.size > 2 * this.#size) this.#dropBelow(this.#size);
  }

  /** Returns the `size` most read keys as a summary of their own. */
  top(size: number): HotKeysSummary {
    const keys = this.keys;
    return { reads: this.reads, floor: keys[size]?.reads ?? this.floor, keys: keys.slice(0, size) };
  }

  #counted(coordinate: string, digest: string, input: string | undefined): Counted {
    const name = `${coordinate}\n${digest}`;
    let counted = this.#byKey.get(name);
    if (counted === undefined) {
      counted = { coordinate, digest, input, reads: this.floor, maxError: this.floor };
      this.#byKey.set(name, counted);
    }
    counted.input ??= input;
    return counted;
  }

  /** Keeps the `size` most read keys. */
  #dropBelow(size: number): void {
    const sorted = [...this.#byKey].sort(([, a], [, b]) => b.reads - a.reads);
    this.floor = Math.max(this.floor, sorted[size]?.[1].reads ?? 0);
    for (const [name] of sorted.slice(size)) this.#byKey.delete(name);
  }
}
